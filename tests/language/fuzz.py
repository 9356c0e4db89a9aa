"""Files that nobody would write, through `spacedsl check` and `compile`: only diagnostics may come out.

    python -m tests.language.fuzz [FILES [SEED]]      # make fuzz ARGS="5000 7"

Texts are mutated from the spaces and kernel files of the repository (tokens deleted, doubled, swapped,
spliced from another file, bytes changed) or drawn from the grammar. A file that raises anything, takes longer
than `LONGEST_S` or shows a place outside the text is printed, and kept as `fuzz-SEED-NUMBER` for a test.
"""

from __future__ import annotations

import math
import random
import re
import resource
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spacedsl.cli.language import check_one
from spacedsl.compiler import compile_space
from spacedsl.diagnostics import Diagnostic, DiagnosticError, render
from spacedsl.language.loader import load_space
from spacedsl.language.parser import grammar
from tests.language import listings
from tests.language.sources import PREAMBLE
from tests.language.timing import limited

ROOT = Path(__file__).parents[2]
LONGEST_S = 2.0
MOST_MEMORY_BYTES = 2 << 30
_TOKEN = re.compile(r"\$?\w+|\"[^\"\n]*\"|//[^\n]*|\s+|[^\w\s]")
_WORDS_OF_THE_LANGUAGE = frozenset(str(t.pattern.value) for t in grammar().terminals)
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
    spaces += [listings.SETS, listings.COUNTERS, listings.GPU, listings.ORIGINAL, listings.PIPELINE]
    spaces += [PREAMBLE, *blocks("space")]
    kernels = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "kernels").rglob("*.yaml"))]
    return Corpus(".space", tuple(spaces)), Corpus(".yaml", (*kernels, *blocks("yaml")))


def _kind(token: str) -> str | None:
    """What tokens have in common that can stand for each other; None for signs and words of the language."""
    if token[0] in '$"':
        return token[0]
    if token.isdigit():
        return "number"
    if not token.isidentifier() or token in _WORDS_OF_THE_LANGUAGE:
        return None
    return "VALUE" if token.isupper() else "Set" if token[0].isupper() else "name"


def mutated(draw: random.Random, corpus: Corpus) -> bytes:
    """A text of the corpus after a few edits."""
    tokens = _TOKEN.findall(draw.choice(corpus.texts))
    is_alike = draw.random() < 0.6
    for _ in range(draw.choice((1, 1, 2, 3, 8, 30))):
        at = draw.randrange(len(tokens) + 1)
        end = min(len(tokens), at + draw.choice((1, 1, 2, 5, 40)))
        match 6 if is_alike else draw.randrange(7):
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
                places = [i for i, token in enumerate(tokens) if _kind(token)] or [0]
                at = draw.choice(places)
                alike = [
                    t for t in _TOKEN.findall(draw.choice(corpus.texts)) if _kind(t) == _kind(tokens[at])
                ]
                tokens[at] = draw.choice(alike or tokens)
    data = bytearray("".join(tokens).encode("utf-8", "surrogatepass"))
    for _ in range(draw.choice((0, 0, 0, 1, 5)) if data and not is_alike else 0):
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


_RULES: dict[str, list[list[str]]] = {}
for _rule in grammar().rules:
    _RULES.setdefault(_rule.origin.name, []).append([symbol.name for symbol in _rule.expansion])
# A file that cannot be included hides all other mistakes.
_RULES["declaration"].remove(["include"])
_PATTERNS = {t.name: str(t.pattern.value) for t in grammar().terminals}


@cache
def _heights() -> dict[str, float]:
    """By symbol: the levels of its lowest tree."""
    heights = dict.fromkeys(_PATTERNS, 0.0) | dict.fromkeys(_RULES, math.inf)
    for _ in _RULES:
        for name, options in _RULES.items():
            heights[name] = 1 + min(max((heights[p] for p in parts), default=0) for parts in options)
    return heights


def generated(draw: random.Random) -> bytes:
    """A text of the grammar of spaces, mostly behind declarations that it may use; it may mean nothing."""
    heights = _heights()
    words: list[str] = []
    pending = [("declaration", 0)] * draw.choice((1, 2, 4))
    while pending:
        name, depth = pending.pop()
        if name in _RULES:
            # Deep down, the shortest way out.
            lowest = min(_RULES[name], key=lambda parts: max((heights[p] for p in parts), default=0))
            chosen = lowest if depth > 12 or len(words) > 200 else draw.choice(_RULES[name])
            pending += [(part, depth + 1) for part in reversed(chosen)]
        else:
            words.append(draw.choice(_WORDS[name]) if name in _WORDS else _PATTERNS[name])
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
            found = check_one(path)
            if path.suffix == ".space":
                assert compile_space(load_space(path)).code
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
