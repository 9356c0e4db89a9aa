"""The record of a run: one SQLite file, to which whatever happens is committed at once.

In: what a run is about, once; then `Iteration`, `Evaluation` and `Comparison` records, and `Measurement`s of
another machine. Out: the same, in order. A process may be killed at any moment: what was committed is there,
and what was not did not happen.
One process writes at a time (a lock file says so, which the system releases with the process); any number
may read.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from spacedsl.kernels.evaluation import Outcome
from spacedsl.search.comparison import Comparison
from spacedsl.search.measurements import Measurement
from spacedsl.search.rows import (
    cells_of,
    iteration_of,
    measurement_of,
    outcome_of,
    phases_of,
    row_of,
    row_of_measurement,
)
from spacedsl.search.state import Evaluation, Iteration

SCHEMA = 6
DATABASE = "run.sqlite"
LOCK = "run.lock"

_TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE iteration (
    number INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    expansion TEXT NOT NULL,
    steps TEXT,
    bound_ns REAL,
    digest TEXT,
    proven_ns REAL,
    refused INTEGER NOT NULL,
    seconds REAL NOT NULL,
    evaluations INTEGER NOT NULL,
    random_state TEXT NOT NULL
);
CREATE TABLE evaluation (
    number INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    time_ns REAL,
    low_ns REAL,
    high_ns REAL,
    samples INTEGER,
    failure TEXT,
    message TEXT,
    phases TEXT NOT NULL,
    slowdown REAL NOT NULL,
    seconds REAL NOT NULL
);
CREATE TABLE comparison (
    number INTEGER NOT NULL,
    iterations INTEGER NOT NULL,
    evaluations INTEGER NOT NULL,
    digest TEXT NOT NULL,
    time_ns REAL,
    low_ns REAL,
    high_ns REAL,
    samples INTEGER,
    failure TEXT,
    message TEXT,
    slowdown REAL NOT NULL,
    PRIMARY KEY (number, digest)
);
CREATE TABLE code (digest TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE measurement (
    digest TEXT PRIMARY KEY,
    device TEXT NOT NULL,
    time_ns REAL,
    low_ns REAL,
    high_ns REAL,
    samples INTEGER,
    failure TEXT,
    message TEXT,
    bound_ns REAL NOT NULL,
    decisions TEXT NOT NULL
);
"""
_COLUMNS = (
    "path", "expansion", "steps", "bound_ns", "digest", "proven_ns", "refused", "seconds", "evaluations",
    "random_state",
)  # fmt: skip
_INSERT = f"INSERT INTO iteration ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' for _ in _COLUMNS)})"
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA)
"""Codes of SQLite for a file, or tables, that are not as they should be; others are faults of the machine."""
_ERRNO = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_IOERR: errno.EIO,
}
"""What the system said when SQLite could not write."""
_EVALUATE = "INSERT INTO evaluation VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_EVALUATED = "SELECT * FROM evaluation ORDER BY number"
_COMPARE = (
    "INSERT INTO comparison SELECT ?, (SELECT COUNT(*) FROM iteration), (SELECT COUNT(*) FROM evaluation), "
    "?, ?, ?, ?, ?, ?, ?, ?"
)
_NOTHING = ""
"""In place of a digest, for a comparison that said nothing."""
_MEASURE = "INSERT OR REPLACE INTO measurement VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MEASURED = "SELECT * FROM measurement ORDER BY rowid"
_COMPARED = "SELECT * FROM comparison ORDER BY number, rowid"
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM iteration ORDER BY number"


class StoreError(Exception):
    """A folder that holds no run, or one that another process is writing."""


class DamagedError(StoreError):
    """A record that cannot be read: of another version, or damaged since it was written."""


@dataclass(frozen=True, slots=True)
class About:
    """What a run is about: enough to go on with it, and to say later what it measured."""

    kernel: str
    kernel_path: str
    kernel_text: str
    sizes: Mapping[str, int]
    space_path: str
    space_digest: str
    space_text: str
    target: str
    device: Mapping[str, Any]
    processor: str
    """The name that the processor has for itself."""
    processor_digest: str
    """Of all that tells one processor from another."""
    cpus: tuple[int, ...]
    """Those that the process might use."""
    compiler: str
    generator_digest: str
    """Of the code generator's own sources: other sources, other code for the same decisions."""
    flags: tuple[str, ...]
    seed: int
    ordering: str | None
    policy: str
    seconds: float | None
    evaluations: int | None
    version: str
    """Of the program, and of the sources that it searches by."""


class Store:
    """Made by `create` or `open`; use it as a context manager, or `close` it."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO[str] | None) -> None:
        self.folder = folder
        self._connection = connection
        self._lock = lock

    @classmethod
    def create(cls, folder: Path, about: About) -> Store:
        """Starts the record of a new run in a folder, which is made where it does not exist."""
        folder.mkdir(parents=True, exist_ok=True)
        lock = _locked(folder)
        if (folder / DATABASE).exists():
            lock.close()
            raise StoreError(f"{folder} already holds a run")
        # The file gets its name once it is complete: whoever finds it can resume from it.
        draft = folder / f"{DATABASE}.draft"
        draft.unlink(missing_ok=True)
        with _refusals_of(draft), closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA};")
            connection.executemany(
                "INSERT INTO about VALUES (?, ?)", [(k, json.dumps(v)) for k, v in asdict(about).items()]
            )
            connection.execute("COMMIT")
        draft.rename(folder / DATABASE)
        lock.close()
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path, *, read_only: bool = False) -> Store:
        """The record of an earlier run, to go on with or only to read. Raises `StoreError`."""
        if not holds_run(folder):
            raise StoreError(f"{folder} holds no run: there is no {DATABASE} in it")
        lock = None if read_only else _locked(folder)
        database = folder / DATABASE
        connection = _read_only(database) if read_only else sqlite3.connect(database, isolation_level=None)
        store = cls(folder, connection, lock)
        try:
            store._check_schema()
            if not read_only:
                # With a log that is written ahead, a commit survives the end of the process without waiting.
                with store._readable():
                    store._connection.execute("PRAGMA journal_mode = WAL")
                    store._connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            store.close()
            raise
        return store

    def _check_schema(self) -> None:
        with self._readable():
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            raise DamagedError(f"{self.folder} holds no run: {DATABASE} is empty")
        if version != SCHEMA:
            raise DamagedError(
                f"{self.folder} was written in format {version}; this program reads format {SCHEMA}"
            )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Whatever reading meets that no version of this program has written is damage."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF not in _DAMAGE:
                raise
            raise DamagedError(f"{self.folder / DATABASE} is not readable: {error}") from None
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedError(f"{self.folder / DATABASE} is damaged: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

    def about(self) -> About:
        with self._readable():
            rows = self._connection.execute("SELECT key, value FROM about")
            values = {key: json.loads(value) for key, value in rows}
            values["flags"] = tuple(values["flags"])
            values["cpus"] = tuple(values["cpus"])
            return About(**values)

    def append(self, iterations: Iterable[Iteration]) -> None:
        """Commits iterations, all of them or none; raises `OSError` where the file cannot be written."""
        with self._writing():
            self._connection.executemany(_INSERT, map(row_of, iterations))

    def append_evaluation(self, evaluation: Evaluation, code: str | None = None) -> None:
        """Commits an outcome, and the code where it is to be kept; raises `OSError` as `append` does."""
        outcome = evaluation.outcome
        phases, slowdown = json.dumps(outcome.phases_ns), outcome.slowdown
        cells = (evaluation.digest, *cells_of(outcome), phases, slowdown, evaluation.seconds)
        with self._writing():
            self._connection.execute(_EVALUATE, cells)
            if code is not None:
                self._connection.execute("INSERT INTO code VALUES (?, ?)", (evaluation.digest, code))

    def append_comparison(self, comparison: Comparison) -> None:
        """Commits what a comparison of contenders said; raises `OSError` as `append` does."""
        with self._writing():
            (number,) = self._connection.execute(
                "SELECT COALESCE(MAX(number), 0) + 1 FROM comparison"
            ).fetchone()
            outcomes = comparison.outcomes or {_NOTHING: Outcome(None)}
            rows = [
                (number, digest, *cells_of(outcome), outcome.slowdown) for digest, outcome in outcomes.items()
            ]
            self._connection.executemany(_COMPARE, rows)

    def append_measurements(self, measurements: Iterable[Measurement], codes: Mapping[str, str]) -> None:
        """Commits what another machine measured, all of it or nothing, and code by its digest; what was known
        of a program from there is replaced. Raises `OSError` as `append` does.
        """
        with self._writing():
            self._connection.executemany(_MEASURE, map(row_of_measurement, measurements))
            self._connection.executemany("INSERT OR IGNORE INTO code VALUES (?, ?)", codes.items())

    def measurements(self) -> list[Measurement]:
        """What another machine measured: beside the predictions, which stay as they are."""
        with self._readable():
            rows = self._connection.execute(_MEASURED).fetchall()
            return [measurement_of(*row) for row in rows]

    def predicted_ns(self, digest: str | None) -> float | None:
        """The time of a program, as it was first known here."""
        timings = (e.outcome.timing for e in self._evaluations() if e.digest == digest)
        return next((timing.time_ns for timing in timings if timing is not None), None)

    def digests(self) -> frozenset[str]:
        """Of all programs that have been evaluated."""
        return frozenset(evaluation.digest for evaluation in self._evaluations())

    def plan(self, seconds: float | None, evaluations: int | None) -> None:
        """Replaces the budget of the run; raises `OSError` as `append` does."""
        with self._writing():
            self._connection.executemany(
                "UPDATE about SET value = ? WHERE key = ?",
                [(json.dumps(seconds), "seconds"), (json.dumps(evaluations), "evaluations")],
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction: all of the block or nothing of it."""
        with _refusals_of(self.folder / DATABASE):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite itself rolls back when the disk is full.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """All that is read belongs to one moment."""
        with self._readable():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def iterations(self) -> Iterator[Iteration]:
        """All committed iterations, in order."""
        with self._readable():
            rows = self._connection.execute(_SELECT)
        while True:
            with self._readable():
                row = rows.fetchone()
                if row is None:
                    return
                iteration = iteration_of(dict(zip(_COLUMNS, row, strict=True)))
            yield iteration

    def history(self) -> Iterator[Iteration | Evaluation | Comparison]:
        """All that is committed, in order: each says, or implies, how much of the others was before it.

        What is committed meanwhile is left out.
        """
        with self._reading():
            yield from self._history()

    def _history(self) -> Iterator[Iteration | Evaluation | Comparison]:
        evaluations, comparisons = self._evaluations(), self._comparisons()
        drawn = done = 0
        for iteration in self.iterations():
            for evaluation in evaluations[done : iteration.evaluations]:
                yield from comparisons.pop((drawn, done), ())
                yield evaluation
                done += 1
            yield from comparisons.pop((drawn, done), ())
            yield iteration
            drawn += 1
        for evaluation in evaluations[done:]:
            yield from comparisons.pop((drawn, done), ())
            yield evaluation
            done += 1
        yield from comparisons.pop((drawn, done), ())
        if comparisons:
            raise DamagedError(f"{self.folder / DATABASE} is damaged: {drawn} iterations are left")

    def _evaluations(self) -> list[Evaluation]:
        with self._readable():
            rows = self._connection.execute(_EVALUATED).fetchall()
            found: list[Evaluation] = []
            for _, digest, *cells, phases, slowdown, seconds in rows:
                outcome = replace(outcome_of(*cells), phases_ns=phases_of(phases), slowdown=slowdown)
                found.append(Evaluation(digest, outcome, seconds))
            return found

    def _comparisons(self) -> dict[tuple[int, int], list[Comparison]]:
        """By the numbers of iterations and of evaluations before them."""
        found: dict[tuple[int, int], list[Comparison]] = {}
        with self._readable():
            rows = self._connection.execute(_COMPARED).fetchall()
            for (_, *before), group in groupby(rows, key=lambda row: row[:3]):
                outcomes = {
                    digest: replace(outcome_of(*cells), slowdown=slowdown)
                    for _, _, _, digest, *cells, slowdown in group
                    if digest != _NOTHING
                }
                found.setdefault((before[0], before[1]), []).append(Comparison(outcomes))
        return found

    def spent(self) -> tuple[float, int]:
        """Seconds of search and evaluations that are committed."""
        with self._readable():
            seconds, evaluations = self._connection.execute(
                "SELECT COALESCE(MAX(seconds), 0), COUNT(*) FROM evaluation"
            ).fetchone()
            (drawn_s,) = self._connection.execute(
                "SELECT COALESCE(MAX(seconds), 0) FROM iteration"
            ).fetchone()
            return float(max(seconds, drawn_s)), int(evaluations)

    def code(self, digest: str) -> str | None:
        with self._readable():
            row = self._connection.execute("SELECT text FROM code WHERE digest = ?", (digest,)).fetchone()
            return None if row is None else str(row[0])


def _read_only(database: Path) -> sqlite3.Connection:
    """A connection that writes nothing.

    Beside a write-ahead log SQLite makes a file for who reads, but where it may not. Without a log there is
    nothing that anybody would have to be told of.
    """
    address = f"{database.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA user_version")
    except sqlite3.OperationalError:
        if database.with_name(f"{database.name}-wal").exists():
            return connection
        connection.close()
        return sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
    except sqlite3.DatabaseError:
        pass  # said when its schema is checked
    return connection


def holds_run(folder: Path) -> bool:
    return (folder / DATABASE).is_file()


def target_of(folder: Path) -> str:
    """What a run is for: `cpu` or `cuda`. Raises `StoreError`."""
    with Store.open(folder, read_only=True) as store:
        return store.about().target


def _locked(folder: Path) -> IO[str]:
    lock = (folder / LOCK).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StoreError(f"another process is writing to {folder}") from None
    return lock


@contextmanager
def _refusals_of(file: Path) -> Iterator[None]:
    """What the disk refuses is an `OSError` that names the file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        code = _ERRNO.get(error.sqlite_errorcode & 0xFF)
        if code is None:
            raise
        raise OSError(code, os.strerror(code), str(file)) from None
