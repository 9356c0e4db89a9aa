"""Which mistakes the generated spaces would find: `python -m tests.engine.mutants [SECONDS] [WORD]`.

Each mutant is one small change of the propagation, of its C or of the translation to CP-SAT. A copy of the
sources gets it, and random spaces are tried on the copy until somebody disagrees. Out: after how many spaces
that was, or that the mutant has survived SECONDS of processor time (60 where none are given); exit status 1
if any has. With a WORD, only mutants whose names have it.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.enumerate import EnumerationLimitError
from tests.engine.agreement import Tally
from tests.engine.examples import example_of
from tests.engine.generated_spaces import generate_space
from tests.engine.soak import check_count, check_native, disagreement

ENGINE, ORACLE = "spacedsl/engine", "spacedsl/oracle"
C = "spacedsl/compiler/c"
FOLDERS = ("spacedsl", "kernels", "search", "codegen", "grammars", "tests")
FIRST_SEED = 1


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    path: str
    old: str
    new: str

    @property
    def part(self) -> str:
        """What is compared with what: the reference with solutions, C with the reference, CP-SAT's count."""
        return "c" if self.path.startswith(C) else "cp-sat" if self.path.startswith(ORACLE) else "python"


MUTANTS = (
    # ---- The reference ----
    Mutant(
        *("a pair waits with the wrong orientation", f"{ENGINE}/domains.py"),
        *("cell, before = other, inverse[before]", "cell = other"),
    ),
    Mutant(
        *("an order that is strict is not", f"{ENGINE}/domains.py"),
        *("(v[left] & -v[left]) << strict", "(v[left] & -v[left])"),
    ),
    Mutant(
        *("a least value is rounded up", f"{ENGINE}/domains.py"),
        *("first = bisect_left", "first = bisect_right"),
    ),
    Mutant(
        *("a negative factor is rounded the other way", f"{ENGINE}/domains.py"),
        *("self.drop_below(cell, -(bound // -factor))", "self.drop_below(cell, -bound // -factor + 1)"),
    ),
    Mutant(
        *("a bound that follows is rounded inwards", f"{ENGINE}/domains.py"),
        *("self.keep_below(cell, rounded_up(bound))", "self.keep_below(cell, rounded_down(bound))"),
    ),
    Mutant(
        *("a counter is not computed again when it is limited", f"{ENGINE}/propagation.py"),
        *(
            "if before:\n                for key in woken.itself",
            "if False:\n                for key in woken.itself",
        ),
    ),
    Mutant(
        *("counters are not computed again", f"{ENGINE}/propagation.py"),
        *("for key in woken.counters:\n                later[key] = None", "pass"),
    ),
    Mutant(
        *("one thing makes a reason certain", f"{ENGINE}/presence.py"),
        *("any(all(v[c] == PRESENT", "any(any(v[c] == PRESENT"),
    ),
    Mutant(
        *("one reason that is out makes a member absent", f"{ENGINE}/presence.py"),
        *("elif all(any(v[c] == ABSENT", "elif any(any(v[c] == ABSENT"),
    ),
    Mutant(
        *("members wake nothing once they are there", f"{ENGINE}/presence.py"),
        *("gated = ((ABSENT, tuple(once_present)),)", "gated = ((PRESENT, tuple(once_present)),)"),
    ),
    Mutant(
        *("an image has what is not there", f"{ENGINE}/triggers.py"),
        *("Reason((*relied, _fact(objects, image.set, environment, member)), None)", "Reason(relied, None)"),
    ),
    Mutant(
        *("an image does not grow", f"{ENGINE}/triggers.py"),
        *("if fact in fixed or reason in expansion.reasons.get(fact, ()):", "if True:"),
    ),
    Mutant(
        *("absent objects may contribute", "spacedsl/compiler/counting.py"),
        *("possible_and_certain(count.foralls if space.triggers else (), ", "possible_and_certain((), "),
    ),
    Mutant(
        *("the base of a counter is forgotten", "spacedsl/compiler/counting.py"),
        *("Assign(HI, count.base)", "Assign(HI, 1 if count.product else 0)"),
    ),
    Mutant(
        *("a contribution is taken from the wrong end", "spacedsl/compiler/counting.py"),
        *("_without(count.product, HI, high)", "_without(count.product, HI, low)"),
    ),
    Mutant(
        *("a representative need not qualify", "spacedsl/compiler/clauses.py"),
        *("Or((not_it, qualified)),", ""),
    ),
    Mutant(
        *("what does not qualify blocks", "spacedsl/compiler/clauses.py"),
        *(
            "(*(tuple(rename(d, renaming) for d in clause) for clause in condition), (equivalent,))",
            "((equivalent,),)",
        ),
    ),
    Mutant(
        *("the filter of a map's class is dropped", "spacedsl/compiler/clauses.py"),
        *("guards.append(Use(quotient.representative", "list().append(Use(quotient.representative"),
    ),
    Mutant(
        *("a value is removed beside an interval", f"{ENGINE}/integers.py"),
        *("domains.keep_above(cell, taken + 1)", "domains.keep_above(cell, taken + 2)"),
    ),
    Mutant(
        *("only one branch of a selection counts", f"{ENGINE}/quantities/intervals.py"),
        *("if high[c]]", "if high[c]][:1]"),
    ),
    Mutant(
        *("a quotient that is not exact is asked too much", f"{ENGINE}/quantities/inverse.py"),
        *("(most + 1) * factor - 1 + shift", "most * factor + shift"),
    ),
    Mutant(
        *("a limit forgets its cell", f"{ENGINE}/quantities/evaluation.py"),
        *("if cell in self._read:\n            self._dirty.add(cell)", "pass"),
    ),
    # ---- C ----
    Mutant(
        *("C: a saturated bound wraps", f"{C}/integers.h"),
        *("return (a > 0) == (b > 0) ? WIDEST : -WIDEST;", "return a * b;"),
    ),
    Mutant(*("C: division rounds to zero", f"{C}/integers.h"), *("- (-a % b != 0)", "")),
    Mutant(*("C: an equality at one end only", f"{C}/integers.h"), *("&& b.low <= a.high;", ";")),
    Mutant(
        *("C: the gate looks at values that were lost before", f"{C}/integers.h"),
        *("return had && !meets", "return !meets"),
    ),
    Mutant(
        *("C: a limited counter forgets it", f"{C}/integers.h"),
        *(
            "} else if (limited) {\n        s->before[cell] = limited;",
            "} else if (limited) {\n        s->before[cell] = 0;",
        ),
    ),
    Mutant(*("C: rows keep what is lost", f"{C}/propagation.h"), *("drop(s, c, had & ~has_now);", "")),
    Mutant(
        *("C: rows do not get back what they had", f"{C}/propagation.h"),
        *("has_now & ~had; more;", "0; more;"),
    ),
    Mutant(
        *("C: words for many objects begin anew", f"{C}/propagation.h"),
        *("(Word)1 << (c->bit & 63);", "(Word)1 << (c->bit & 31);"),
    ),
    Mutant(
        *("C: nodes are not marked for the other words", f"{C}/quantities.h"),
        *("n >> 12] |=", "n >> 6 & 0] |="),
    ),
    Mutant(
        *("C: a selection needs its value alone", f"{C}/inverse.h"),
        *("ask_of(s, operands[one], 1, 1);", ""),
    ),
    Mutant(
        *("C: a filter leaves out a negation", f"{C}/filters.py"),
        *("self.space.enum(use).full & ~mask)", "mask)"),
    ),
    Mutant(
        *("C: a mirrored row is not inverted", f"{C}/filters.py"),
        *("choice.invert(mask) if self.rows[number].is_inverted else mask", "mask"),
    ),
    # ---- CP-SAT ----
    Mutant(
        *("CP-SAT: the other orientation is the same", f"{ORACLE}/decisions.py"),
        *("mirrored.literals[choice.inverse[v]]", "mirrored.literals[v]"),
    ),
    Mutant(
        *("CP-SAT: absent objects are decided", f"{ORACLE}/decisions.py"),
        *("for present in guards(domain.needed):", "for present in ():"),
    ),
    Mutant(
        *("CP-SAT: what does not qualify stands before", f"{ORACLE}/derived.py"),
        *("conjunction([*qualifies, equivalent])", "conjunction([equivalent])"),
    ),
    Mutant(
        *("CP-SAT: the last cause alone adds", f"{ORACLE}/derived.py"),
        *("return logic.disjunction(causes)", "return logic.disjunction(causes[-1:])"),
    ),
    Mutant(
        *("CP-SAT: an image has what is not there", f"{ORACLE}/objects.py"),
        *("for m in (*relied, member) if", "for m in relied if"),
    ),
    Mutant(
        *("CP-SAT: absent objects count", f"{ORACLE}/derived.py"),
        *("counted = [*self.guards(members), ", "counted = ["),
    ),
    Mutant(
        *("CP-SAT: a remainder may be the divisor", f"{ORACLE}/quantities.py"),
        *("rest < divisor[0]", "rest <= divisor[0]"),
    ),
    Mutant(
        *("CP-SAT: a number is cut too tightly", f"{ORACLE}/formulas.py"),
        *("lefts[0] - 1), lefts[1] + 1)", "lefts[0]), lefts[1])"),
    ),
)


def found_after(part: str, seconds: float) -> int | None:
    """The number of spaces until the comparison of a part fails; None: it has not."""
    for number in range(1, 1 << 30):
        if time.process_time() > seconds:
            return None
        seed = FIRST_SEED + number
        try:
            if part == "python":
                if disagreement(generate_space(random.Random(seed)), Tally(), seed):
                    return number
                continue
            example = example_of(generate_space(random.Random(seed)))
            compared = example.agreement()
            if part == "c":
                check_native(compared, seed)
            elif len(compared.solutions) <= 1000:
                check_count(example, compared)
        except (DiagnosticError, EnumerationLimitError):
            continue
        except Exception:
            return number
    return None


def tried(mutant: Mutant, seconds: float) -> str:
    """What happens to a copy of the sources with the mutant."""
    with tempfile.TemporaryDirectory() as folder:
        for name in FOLDERS:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(name, Path(folder, name), symlinks=True, ignore=ignored)
        path = Path(folder, mutant.path)
        text = path.read_text()
        assert text.count(mutant.old) >= 1, f"{mutant.path} has no {mutant.old!r}"
        path.write_text(text.replace(mutant.old, mutant.new, 1))
        program = (
            f"from tests.engine.mutants import found_after; print(found_after({mutant.part!r}, {seconds}))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=folder,
            env={**os.environ, "XDG_CACHE_HOME": folder},
            capture_output=True,
            text=True,
            check=False,
        )
        last = done.stdout.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return last[0]


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    survivors = 0
    for mutant in MUTANTS:
        if word in mutant.name:
            end = tried(mutant, seconds)
            survivors += end == "None"
            outcome = "SURVIVES" if end == "None" else f"found after {end}"
            print(f"{mutant.part:7} {mutant.name}: {outcome}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
