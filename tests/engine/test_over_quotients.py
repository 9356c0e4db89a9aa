"""Quotients wherever a set may stand: what is accepted means what the enumerator says, or it is refused.

Who represents a class follows from decisions. So there are places where a quotient cannot stand, and ways in
which what a trigger adds depends on itself: where one of them is let through, the engine finds other
solutions than the enumerator, or the enumerator sees the circle.
"""

from __future__ import annotations

import random
from collections import Counter

from spacedsl.diagnostics import DiagnosticError, Severity
from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.language.space import Space
from tests.engine.agreement import Agreement
from tests.engine.examples import load_text
from tests.engine.small import SETS, Machine, Things, things, world

SPACES = 250
MOST_SOLUTIONS_TO_SEARCH = 60


def kernel() -> Things:
    """Two things near each other, and a third near the first; one of them is one of some."""
    made = things(3)
    made[0].near, made[1].near, made[2].near = (made[1],), (made[0],), (made[0],)
    return Things(made, made[:1])


def written(rng: random.Random) -> str:
    """A space in which each set that may be a quotient is one by chance, or is over one."""

    def one(*options: str) -> str:
        return options[rng.randrange(len(options))]

    led = one("Things", "Things", "Things", "Kept")
    extreme = one("max", "min") + " $y in " + one("Things", "Kept", "Kept", "Some", "Led") + ": rank($y)"
    marked = f"forall $x in {one('Things', 'Some')}: sum 1 when: {one('', 'kind($x) is A')}"
    grown = one("Things", "Kept", "Some", "Led")
    inner = one(
        "", "forall $y in Kept: ", "forall $y in Led: ", "forall $y in Led($x): ", "forall $y in Own: "
    )
    condition = one("kind($x) is B", "total() <= 1", "marks() <= 1", "marks() >= 1")
    read = one("rank($x)", "rank(next($x))", "rank(next($x))")
    parts = [
        "choice enum kind($x in Things): value A: value B: end",
        "choice enum same($x in Things, $y in Things): symmetric value YES: value NO: end",
        "choice ordered enum rank($x in Things): LOW < TOP end",
        f"quotient Kept of $x in Things: is_kept = {one('kind($x) is A', condition)} / same is YES end",
        "quotient Own($p in Things) of $y in Near($p): is_own = kind($p) is A / same is YES end",
        f'set Led($p in {led}) subsetof {one(*["Things"] * 7, "Kept")}:\n  iterator = "$p.near"\nend',
        f'map next($p in Things) in {one(*["Things"] * 6, "Kept", "Led")} = "$p.near[0]"',
        f"choice counter marks(): {marked} end",
        f"quantity total() = sum $y in {grown}: 1",
        f"quantity best() = {one(extreme, f'max(LOW, {extreme})', f'min({extreme}, TOP)')}",
        f"require best() {one('>=', '<=')} {one('LOW', 'TOP')} || total() <= 1",
        f"require forall $x in {one('Things', 'Kept')}: {inner}{read} is LOW || kind($x) is A",
    ]
    fires = one("kind($x) is A", "total() >= 1", "total() <= 2", "marks() <= 2")
    if rng.randrange(2):
        parts.append(
            f'trigger forall $x in {one("Things", "Kept")} where "$x.id == 1":\n'
            f'  "$kernel.add_to_some($x)" when {fires}'
        )
    return "\n".join(parts) + "\n"


def is_circular(space: Space) -> bool:
    """Whether the enumerator sees that something is present only if it is not, or is."""
    try:
        next(iter(enumerate_solutions(space, kernel(), Machine())), None)
    except ValueError as error:
        assert "depends on itself" in str(error)
        return True
    return False


def outcome(text: str) -> str:
    """How a space was refused, or that the engine and the enumerator agree."""
    try:
        space = load_text(SETS + text)
    except DiagnosticError as error:
        return next(each.code for each in error.diagnostics if each.severity is Severity.ERROR)
    try:
        here = world(text, kernel())
    except DiagnosticError as error:
        (refused,) = error.diagnostics
        assert refused.code != "SP423" or is_circular(space), text
        return refused.code
    solutions = tuple(enumerate_solutions(space, here.kernel, Machine()))
    found = Agreement(space, here.instance, solutions, {x.name: x for x in here.things})
    if len(solutions) <= MOST_SOLUTIONS_TO_SEARCH:
        found.check_exhaustively()
    for seed in range(4):
        found.check_descent(random.Random(seed))
    return "agreement"


def test_a_space_with_quotients_is_refused_or_means_what_the_enumerator_says() -> None:
    met = Counter(outcome(written(random.Random(seed))) for seed in range(SPACES))
    assert met["agreement"] >= SPACES // 10, met
    assert min(met[code] for code in ("SP026", "SP302", "SP423", "SP443")) >= SPACES // 100, met
