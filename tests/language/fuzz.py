"""Files that nobody would write, through the code of `spacedsl check`: only diagnostics may come out.

    python -m tests.language.fuzz [FILES [SEED]]      # make fuzz ARGS="5000 7"

Texts are mutated from the spaces and kernel files of the repository (tokens deleted, doubled, swapped,
spliced from another file, bytes changed) or drawn from the grammar. A file that raises anything, takes longer
than `LONGEST_S` or shows a place outside the text is printed, and kept as `fuzz-SEED-NUMBER` for a test.
"""

from __future__ import annotations

import random
import re
import resource
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lark import Lark
from lark.grammar import NonTerminal

from spacedsl.cli.language import check_one
from spacedsl.diagnostics import Diagnostic, DiagnosticError, render
from spacedsl.language.parser import grammar
from tests.language import listings
from tests.language.sources import PREAMBLE
from tests.language.timing import limited

ROOT = Path(__file__).parents[2]
LONGEST_S = 2.0
MOST_MEMORY_BYTES = 2 << 30
_TOKEN = re.compile(r"\$?\w+|\"[^\"\n]*\"|//[^\n]*|\s+|[^\w\s]")
_STRANGE = (
    "\0",
    "\ufeff",
    "é",
    "\U0001f600",
    "\u2028",
    "\t",
    "\r",
    "\x1b[2J",
    '"',
    "'",
    "\\",
    "$",
    "/*",
    "*/",
    "9" * 30,
)


@dataclass(frozen=True, slots=True)
class Corpus:
    suffix: str
    texts: tuple[str, ...]


def _corpora() -> tuple[Corpus, ...]:
    pages = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))]

    def blocks(kind: str) -> list[str]:
        return [b for page in pages for b in re.findall(rf"^```{kind}[^\n]*\n(.*?)^```", page, re.M | re.S)]

    spaces = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "kernels/spaces").glob("*.space"))]
    spaces += [listings.SETS, listings.COUNTERS, listings.GPU, PREAMBLE, *blocks("space")]
    kernels = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "kernels").rglob("*.yaml"))]
    return Corpus(".space", tuple(spaces)), Corpus(".yaml", (*kernels, *blocks("yaml")))


def _kind(token: str) -> str:
    """What tokens have in common that can stand for each other."""
    if token.isspace() or token.isdigit() or token.startswith("//"):
        return token[:2] if token.startswith("//") else " " if token.isspace() else "0"
    first = token[0]
    if first in '$"' or not first.isalpha():
        return first if first in '$"' else "sign"
    return "A" if token.isupper() else "Aa" if first.isupper() else "a"


def mutated(draw: random.Random, corpus: Corpus) -> bytes:
    """A text of the corpus after a few edits."""
    tokens = _TOKEN.findall(draw.choice(corpus.texts))
    for _ in range(draw.choice((1, 1, 2, 3, 8, 30))):
        at = draw.randrange(len(tokens) + 1)
        end = min(len(tokens), at + draw.choice((1, 1, 2, 5, 40)))
        match draw.choice((0, 1, 2, 3, 4, 5, *[6] * 12)):
            case 0:
                del tokens[at:end]
            case 1:
                tokens[at:at] = tokens[at:end] * draw.choice((1, 1, 1, 50))
            case 2 if tokens:
                other = draw.randrange(len(tokens))
                at = min(at, len(tokens) - 1)
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                spliced = _TOKEN.findall(draw.choice(corpus.texts))
                start = draw.randrange(len(spliced) + 1)
                tokens[at:end] = spliced[start : start + draw.choice((1, 3, 20, 200))]
            case 4:
                tokens.insert(at, draw.choice(_STRANGE))
            case 5:
                del tokens[at:]
            case _ if tokens:
                # One of the same kind, so that most of these texts still parse.
                at = draw.randrange(len(tokens))
                kind = _kind(tokens[at])
                alike = [t for t in _TOKEN.findall(draw.choice(corpus.texts)) if _kind(t) == kind]
                tokens[at] = draw.choice(alike or tokens)
    data = bytearray("".join(tokens).encode("utf-8", "surrogatepass"))
    for _ in range(draw.choice((*[0] * 12, 1, 5)) if data else 0):
        data[draw.randrange(len(data))] = draw.randrange(draw.choice((128, 128, 128, 256)))
    return bytes(data[:20_000])


_WORDS = {
    "NAME": ("kind", "size", "order", "threads", "c", "d", "iterator", "type"),
    "SET_NAME": ("Items", "Loops", "Inner", "Things"),
    "VALUE_NAME": ("A", "B", "AB", "BEFORE", "MERGED"),
    "VARIABLE": ("$x", "$y", "$z", "$kernel"),
    "NUMBER": ("0", "1", "2", "64", "9223372036854775807", "9223372036854775808"),
    "HOST": ('"$x.a"', '"$kernel.f($x)"', '"[a for a in $y.b]"', '"1 +"', '""', '"$x.a < 3 and $y.b"'),
    "DOC": ("/// text\n",),
}


def generated(draw: random.Random) -> bytes:
    """A text of the grammar of spaces, mostly behind declarations that it may use; it may mean nothing."""
    lark: Lark = grammar()
    rules: dict[str, list[list[object]]] = {}
    for rule in lark.rules:
        rules.setdefault(rule.origin.name, []).append(list(rule.expansion))
    patterns = {t.name: str(t.pattern.value) for t in lark.terminals}
    words: list[str] = []
    pending: list[tuple[object, int]] = [(NonTerminal("declaration"), 0)] * draw.choice((1, 2, 4))
    while pending and len(words) < 400:
        symbol, depth = pending.pop()
        name = symbol.name  # type: ignore[attr-defined]
        if name in rules:
            options = rules[name]
            # Deep down, the shortest way out.
            chosen = min(options, key=len) if depth > 40 else draw.choice(options)
            pending += [(part, depth + 1) for part in reversed(chosen)]
        else:
            words.append(draw.choice(_WORDS[name]) if name in _WORDS else patterns[name])
    return (draw.choice((PREAMBLE, PREAMBLE, "")) + " ".join(words)).encode()


def files(draw: random.Random, corpora: tuple[Corpus, ...], number: int) -> Iterator[tuple[str, bytes]]:
    """(suffix, content) of so many files."""
    for _ in range(number):
        if draw.random() < 0.25:
            yield ".space", generated(draw)
        else:
            corpus = corpora[0] if draw.random() < 0.7 else corpora[1]
            yield corpus.suffix, mutated(draw, corpus)


def checked(path: Path) -> tuple[Diagnostic, ...]:
    """What is said of a file, each rendered, at a place in the file that it names."""
    with limited(LONGEST_S):
        try:
            check_one(path)
            found: tuple[Diagnostic, ...] = ()
        except DiagnosticError as error:
            found = error.diagnostics
        for diagnostic in found:
            assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(diagnostic.span.source.text) + 1
            assert render(diagnostic)
    return found


def fuzz(number: int, seed: int, on_failure: Callable[[str, bytes, str], None]) -> Counter[str]:
    """How many files each code was reported for; every file that fails is handed on with its trace."""
    draw, counts = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for suffix, data in files(draw, _corpora(), number):
            path = Path(folder) / f"fuzz{suffix}"
            path.write_bytes(data)
            try:
                found = checked(path)
            except Exception:  # whatever it is, it is what is looked for
                counts["failed"] += 1
                on_failure(suffix, data, traceback.format_exc())
                continue
            counts.update({d.code for d in found} or {"nothing to report"})
    return counts


def main() -> None:
    number, seed = (int(a) for a in [*sys.argv[1:3], *("2000", "0")[len(sys.argv) - 1 :]])
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    failures = 0

    def keep(suffix: str, data: bytes, trace: str) -> None:
        nonlocal failures
        failures += 1
        kept = Path(f"fuzz-{seed}-{failures}{suffix}")
        kept.write_bytes(data)
        print(f"{kept}: {trace.strip().splitlines()[-1]}", file=sys.stderr)

    counts = fuzz(number, seed, keep)
    for code, count in sorted(counts.items()):
        print(f"{code:18} {count}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{number} files, {failures} failed, {peak} MiB at most")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
