"""`explain`: why a value is gone, why a limit holds, why there is no solution."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacedsl.cli.console import Console
from spacedsl.cli.explain_bound import explain_bound
from spacedsl.cli.faults import CommandError, ExitCode
from spacedsl.cli.options import (
    AnyKernel,
    DeviceFile,
    Json,
    Quiet,
    Sizes,
    SpaceFile,
    Target,
    Verbose,
    parse_duration,
    parse_sizes,
)
from spacedsl.language.applications import written

if TYPE_CHECKING:
    from rich.tree import Tree

    from spacedsl.api.explaining import Answer, Given, Left
    from spacedsl.diagnostics import Span
    from spacedsl.engine.decision import Decision
    from spacedsl.engine.explanation import Change, Step
    from spacedsl.oracle.conflict import Clash

MOST_BINDINGS = 12
"""Of one line, that the text shows; `--json` holds all."""

_COMMENT = re.compile(r'(?P<kept>"[^"]*")|//.*')

MOST_VALUES = 16
"""Of one integer choice, or runs of them, that the text lists."""

LONG_RUN = 4
"""So many integers in a row are told by their ends."""

UNBOUNDED = {2**64 - 1: "infinity", 2**63 - 1: "infinity", 1 - 2**63: "-infinity"}
"""What counters (SATURATED) and quantities (INFINITE) do not tell from infinity, in words. The modules that
say so take too long to import at each start."""

UNTELLING = (0, *UNBOUNDED)
"""What ends of them are where nothing is known."""

USUAL_TIME = "1m"
"""After which a question is given up."""


def explain(
    kernel: AnyKernel,
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUESTION]",
            help="What to explain: 'order(a, b) is not INNER', 'size(i) <= 8', 'total() >= 300'. "
            "Without one: why there is no solution.",
        ),
    ] = None,
    decide: Annotated[
        list[str] | None,
        typer.Option("--decide", metavar="'size(i) = 4'", help="A decision made before. Repeatable."),
    ] = None,
    decisions: Annotated[
        Path | None,
        typer.Option(
            "--decisions", metavar="FILE", help="Decisions made before: a record such as best.json."
        ),
    ] = None,
    bound: Annotated[
        bool, typer.Option("--bound", help="What the lower bound on the time of what is left consists of.")
    ] = False,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", "-t", metavar="1m", help="Give a proof up after this long: 90s, 3m, 1h30m. Default: 1m."
        ),
    ] = None,
    size: Sizes = None,
    space: SpaceFile = None,
    target: Target = None,
    device: DeviceFile = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Say why a value is gone, why a space has no solution, or what a bound consists of."""
    from spacedsl import record
    from spacedsl.api import explaining, solving, statements

    console = Console.of(verbose=verbose, quiet=quiet)
    time_s = parse_duration(time or USUAL_TIME)
    if bound:
        if time is not None:
            raise CommandError("--time: a bound is not searched for", hint="leave it out")
        if question is not None:
            hint = "leave out the question, or --bound"
            raise CommandError("--bound explains a time, and a question asks for something else", hint=hint)
        return explain_bound(
            *(console, kernel),
            decide=decide or (),
            decisions=decisions,
            sizes=size or (),
            space=space,
            target=target,
            device=device,
            json=json,
        )
    problem = solving.pose_unmeasured(
        kernel, sizes=parse_sizes(size or ()), space=space, target=target, device=device
    )
    taken: list[Decision] = list(record.read(decisions).as_decisions()) if decisions is not None else []
    taken += [statements.parse_decision(problem.instance, text) for text in decide or ()]
    try:
        answer = explaining.explain(problem, question, taken, time_s=time_s)
    except TimeoutError:
        hint = "--time gives it longer"
        raise CommandError(f"no answer after {time or USUAL_TIME}", ExitCode.NO_CANDIDATE, hint) from None
    if json:
        console.document(_document(answer))
    else:
        console.data(text(answer))
    is_empty = answer.holds and (answer.chain is None or answer.chain.is_contradiction)
    return ExitCode.EMPTY_SPACE if is_empty else ExitCode.OK


# ---- Text --------------------------------------------------------------------------------------------------


def text(answer: Answer) -> str:
    """The conflict, if there is one, and the chain, as trees."""
    from rich.console import Console as RichConsole

    if not answer.holds:
        if answer.left is None:
            return "there are solutions\n"
        if answer.left.is_present is False:
            return f"there is no {answer.left.what}, of which anything could be said: it is absent\n"
        return f"propagation leaves open whether {answer.claim}: {_left(answer.left)}\n"
    if answer.chain is not None and not answer.chain.steps:
        return f"{answer.claim}, whatever is decided: no line is needed for that\n"
    stream = io.StringIO()
    # Lines of a space are shown whole: a terminal may wrap them.
    rich = RichConsole(
        file=stream, width=10_000, color_system=None, highlight=False, markup=False, emoji=False
    )
    for tree in _trees(answer):
        rich.print(tree)
    lines = (line.rstrip() for line in stream.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def _left(left: Left) -> str:
    if left.is_interval:
        return f"{left.what} is still from {' to '.join(map(_end, left.values))}"
    where = "" if left.is_present else ", where its objects are there, which depends on other decisions"
    return f"{left.what} is still {_values(left.values)}{where}"


def _trees(answer: Answer) -> Iterator[Tree | str]:
    from rich.tree import Tree

    if answer.conflict is not None:
        conflict = Tree(f"{answer.claim}: these conflict, and without any one of them the others do not")
        for decision in answer.conflict.decisions:
            choice, objects, values = decision
            conflict.add(f"decision: {choice}({', '.join(map(str, objects))}) = {_values(tuple(values))}")
        for clash in answer.conflict.clashes:
            line = conflict.add(_line(clash.requirement.span))
            for words in _bindings(clash):
                line.add(words)
        if answer.givens:
            givens = conflict.add("given")
            for words in _givens(answer.givens):
                givens.add(words)
        yield conflict
    if answer.why_no_conflict is not None:
        yield f"{answer.claim}; no minimal set of lines: {answer.why_no_conflict}"
    if answer.chain is not None:
        title = f"{answer.claim}, as follows" if answer.conflict is None else "how propagation finds it"
        chain = Tree(title)
        for number, step in enumerate(answer.chain.steps, 1):
            label, details = _step(step, number)
            branch = chain.add(label)
            for words in details:
                branch.add(words)
        if answer.chain.is_contradiction:
            chain.add("nothing is left")
        yield chain


def _givens(givens: Sequence[Given]) -> Iterator[str]:
    """Integer choices with their values; a counter or quantity once, with what it is applied to."""
    applied: dict[Span, list[str]] = {}
    for given in givens:
        if given.values is None:
            applied.setdefault(given.span, []).append(given.what)
    for given in givens:
        values = given.values
        if values is None:
            if given.span in applied:
                yield f"{_line(given.span).removesuffix(':')}, for {', '.join(applied.pop(given.span))}"
        else:
            yield f"{_place_of(given.span)}: {given.what} is {_values(values)}"


def _bindings(clash: Clash) -> Iterator[str]:
    bindings = [b for b in clash.bindings if b]
    for binding in bindings[:MOST_BINDINGS]:
        yield ", ".join(f"{written(name)} = {item}" for name, item in binding.items())
    if len(bindings) > MOST_BINDINGS:
        yield f"and {len(bindings) - MOST_BINDINGS} more"


def _step(step: Step, number: int) -> tuple[str, list[str]]:
    origin = f"{number}. "
    if step.reasons:
        origin += f"from {_numbers(step.reasons)}: "
    changes = [_change(change) for change in step.changes]
    if step.relation is not None:
        changes.append(step.relation)
    if step.decision is not None:
        decision = step.decision
        use = f"{decision.choice}({', '.join(decision.objects)})"
        return f"{origin}decision: {use} = {_values(decision.values)}", []
    if not step.spans:
        return f"{origin}what is present", changes
    first, *others = step.spans
    binding = [", ".join(f"{written(name)} = {item}" for name, item in step.binding)] if step.binding else []
    return origin + _line(first), [*map(_line, others), *binding, *changes]


def _line(span: Span) -> str:
    return f"{_place_of(span)}: {_source(span)}"


def _place_of(span: Span) -> str:
    file = Path(span.source.name)
    with suppress(ValueError):
        file = file.resolve().relative_to(Path.cwd())
    return f"{file}:{span.line}"


def _source(span: Span) -> str:
    """The line, or all of what is written over several, on one, without comments."""
    text = span.text if "\n" in span.text else span.source.line(span.line)
    return " ".join(_COMMENT.sub(lambda found: found["kept"] or "", text).split())


def _change(change: Change) -> str:
    if change.is_interval:
        ((before,), (after,)) = change.before, change.after
        is_telling = before != after and before not in UNTELLING
        was = f" (was {before})" if is_telling else ""
        return f"{change.what} is {_end(after)}{was}"
    if not change.after:
        return f"{change.what}: no value is left"
    return f"{change.what} is not {_values(change.removed)}, which leaves {_values(change.after)}"


def _end(value: str | int) -> str:
    """One end of an interval."""
    return UNBOUNDED.get(value, str(value)) if isinstance(value, int) else value


def _values(values: Sequence[str | int]) -> str:
    """Runs of integers by their ends."""
    shown: list[str] = []
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) < len(values):
        return " | ".join(map(str, values))
    for _, run in groupby(enumerate(numbers), key=lambda place: place[1] - place[0]):
        members = [number for _, number in run]
        is_long = len(members) >= LONG_RUN
        shown += [f"{members[0]} to {members[-1]}"] if is_long else map(str, members)
    if len(shown) > MOST_VALUES:
        return f"one of {len(numbers)} values from {numbers[0]} to {numbers[-1]}"
    return " | ".join(shown)


def _numbers(reasons: Sequence[int]) -> str:
    numbers = [str(reason + 1) for reason in reasons]
    return numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} and {numbers[-1]}"


# ---- JSON --------------------------------------------------------------------------------------------------


def _document(answer: Answer) -> dict[str, object]:
    conflict, chain = answer.conflict, answer.chain
    return {
        "schema": 1,
        "claim": answer.claim,
        "holds": answer.holds,
        "left": None
        if answer.left is None
        else {
            "what": answer.left.what,
            "values": list(answer.left.values),
            "is_interval": answer.left.is_interval,
            "is_present": answer.left.is_present,
        },
        "conflict": None
        if conflict is None
        else {
            "decisions": [
                {"choice": choice, "objects": [str(o) for o in objects], "values": list(values)}
                for choice, objects, values in conflict.decisions
            ],
            "lines": [
                {
                    **_place(clash.requirement.span),
                    "bindings": [{k: str(v) for k, v in binding.items()} for binding in clash.bindings],
                }
                for clash in conflict.clashes
            ],
        },
        "given": [
            {"what": given.what, "values": given.values and list(given.values), **_place(given.span)}
            for given in answer.givens
        ],
        "why_no_conflict": answer.why_no_conflict,
        "chain": None
        if chain is None
        else {
            "steps": [_step_document(step) for step in chain.steps],
            "is_contradiction": chain.is_contradiction,
        },
    }


def _step_document(step: Step) -> dict[str, object]:
    decision = step.decision
    return {
        "decision": None
        if decision is None
        else {
            "choice": decision.choice,
            "objects": list(decision.objects),
            "values": list(decision.values),
        },
        "lines": [_place(span) for span in step.spans],
        "binding": dict(step.binding),
        "changes": [{"what": c.what, "before": list(c.before), "after": list(c.after)} for c in step.changes],
        "relation": step.relation,
        "reasons": list(step.reasons),
    }


def _place(span: Span) -> dict[str, object]:
    return {
        "file": str(Path(span.source.name).resolve()),
        "line": span.line,
        "column": span.column,
        "text": _source(span),
    }
