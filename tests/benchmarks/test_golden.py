"""Golden lists beside what searches found, C by hand and peers: whose times are shown."""

from __future__ import annotations

from benchmarks.contest import PRODUCT, Contender, Contest
from benchmarks.cpu.peers import LIMITS
from benchmarks.cpu.peers.limits import ARITHMETIC, MOVES
from benchmarks.golden import FOUND, HAND, shown_rows
from benchmarks.turns import Turn


def contender(name: str, label: str, *medians_ns: float) -> Contender:
    return Contender(name, label, "", [Turn([0.9 * ns, ns, 2 * ns], 2 * ns, 1.8) for ns in medians_ns])


def test_each_list_is_beside_the_fastest_of_what_was_found() -> None:
    limits = [contender(LIMITS, name, 5, 10, 20) for name in (ARITHMETIC, *MOVES)]
    contest = Contest(
        (
            contender(PRODUCT, "one", 10, 20, 40),
            contender(PRODUCT, "two", 20, 40, 80),
            contender(FOUND, "seed-0", 15, 30, 60),
            contender(FOUND, "seed-1", 11, 22, 44),
            contender(HAND, "", 12, 24, 48),
            *(Contender(c.name, c.label, c.label, c.rounds) for c in limits),
        ),
        {},
    )
    rows = {name: (found, hand, limit) for name, _, found, hand, limit, *_ in shown_rows(contest)}
    assert rows == {
        "one": ("1.10 (1.10)", "1.20 (1.20)", "0.50 (0.50)"),
        "two": ("0.55 (0.55)", "0.60 (0.60)", "0.25 (0.25)"),
    }
