"""What is to be searched: a kernel under the rules of a space on a device, checked and propagated.

In: a kernel file, the path of a space, a device. Out: a `Problem`, or an exception that says what is wrong.
On the way a listener hears what is being done. Nothing is searched here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from spacedsl.api.offered import mistakes
from spacedsl.codegen.generation import generation
from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, in_order
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.backbones import AnyKernel, MeasurableKernel
from spacedsl.kernels.device import Device
from spacedsl.kernels.kernel_file import Kind, locate
from spacedsl.kernels.validation import closest
from spacedsl.language.loader import load_space
from spacedsl.language.space import Space
from spacedsl.search.events import Event, Failed
from spacedsl.search.run import ContradictionError, decided

_PACKAGE = Path(__file__).parents[1]


class UnknownNameError(ValueError):
    """Something that does not exist; the message names what may have been meant."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Names what it may have been instead."""
    hint = closest(name, known)
    return UnknownNameError(f"no {kind} is called `{name}`" + (f"; {hint}" if hint else ""))


def check_known(kind: str, name: str, known: Collection[str]) -> None:
    """Raises `UnknownNameError` for a name that is not among them."""
    if name not in known:
        raise unknown(kind, name, known)


class EmptySpaceError(Exception):
    """The constraints, together with the decisions fixed by the kernel file, leave no implementation."""


class ChangedError(Exception):
    """A run or a record cannot be taken up again because what it was made from is another today."""


class UnverifiedError(Exception):
    """The record of an implementation that is wrong, where one that may be used is wanted."""


@dataclass(frozen=True, slots=True)
class Preparing:
    """What is done before the search starts."""

    activity: str


@dataclass(frozen=True, slots=True)
class Warned:
    """What a user should know although it stops nothing."""

    message: str


@dataclass(frozen=True, slots=True)
class Planned:
    """The budget of the whole run, over all its resumptions; None: no limit."""

    time_s: float | None
    evaluations: int | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Other processes build and measure on this machine: this one begins to wait for them, or goes on."""

    is_over: bool


@dataclass(frozen=True, slots=True)
class Stopping:
    """An interruption was asked for; the evaluation in progress is still finished.

    Sent from a signal handler: a listener may note it, but not write to a stream.
    """


@dataclass(frozen=True, slots=True)
class Defect:
    """An implementation that the space should not offer, or whose code is wrong; its record reproduces it."""

    failed: Failed
    record: Path


Activity = Event | Preparing | Warned | Planned | Waiting | Stopping | Defect
Listener = Callable[[Activity], None]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A kernel, its space and a device, ready to be searched."""

    kernel: MeasurableKernel
    space: Space
    space_path: Path
    device: Device
    instance: Instance
    root: Candidate
    """With the decisions that the kernel file fixes."""


@dataclass(frozen=True, slots=True)
class Rules:
    """A space that code can be generated for, compiled."""

    path: Path
    compiled: CompiledSpace


def load_rules(path: Path, kernel: MeasurableKernel, kind: Kind, on_event: Listener) -> Rules:
    """All that is wrong in a space, for kernels of this backbone: raises `DiagnosticError`, `OSError`."""
    on_event(Preparing(f"compiling {path.name}"))
    space = load_space(path)
    generation(kernel).check(space, Source.read(path), kind)
    return Rules(path, compile_space(space))


def pose(kernel: MeasurableKernel, space_path: Path, device: Device, on_event: Listener) -> Problem:
    """Raises what `load_rules` and `apply` do."""
    return apply(load_rules(space_path, kernel, device.kind, on_event), kernel, device, on_event)


def apply(rules: Rules, kernel: MeasurableKernel, device: Device, on_event: Listener) -> Problem:
    """The rules on a kernel; raises `EmptySpaceError`, `DiagnosticError` for decisions of the kernel file."""
    space, space_path = rules.compiled.space, rules.path
    on_event(Preparing(f"building the space of {kernel.name}"))
    instance = instantiate(rules.compiled, kernel.backbone, device, Engine.NATIVE)
    if instance.no_native is not None:
        on_event(Warned(f"the reference engine propagates, some hundred times slower: {instance.no_native}"))
    root = instance.root()
    if root is None:
        raise EmptySpaceError(f"{space_path}: the constraints leave no implementation of `{kernel.name}`")
    try:
        root = with_decisions(kernel, root)
    except ContradictionError as error:
        raise EmptySpaceError(f"{kernel.path}: {error}") from None
    return Problem(kernel, space, space_path, device, instance, root)


def with_decisions(kernel: AnyKernel, root: Candidate) -> Candidate:
    """The root with what the kernel file decides.

    Raises `ContradictionError`, and `DiagnosticError` for all that the space does not offer.
    """
    wrong = wrong_decisions(kernel, root.instance)
    if wrong:
        raise DiagnosticError(wrong)
    return decided(root.instance, root, kernel.decisions)


def wrong_decisions(kernel: AnyKernel, instance: Instance) -> tuple[Diagnostic, ...]:
    """What the kernel file decides and the space does not offer (KF040, KF043), each at its place."""
    return in_order(
        Diagnostic(
            mistake.code,
            mistake.message,
            locate(kernel, "decisions", position, *mistake.place),
            mistake.hint,
        )
        for position, decision in enumerate(kernel.decisions)
        for mistake in mistakes(instance, decision)
    )


def generator_digest() -> str:
    """SHA-256 of all sources that code depends on: with other ones, other code for the same decisions."""
    return _digest("codegen", "kernels")


def searched_by() -> str:
    """The version of this program, with a digest of the sources that steps of a search depend on: with other
    ones, the same steps may lead elsewhere, and bounds be others.
    """
    return f"{metadata.version('spacedsl')}+{_digest('language', 'compiler', 'engine', 'search')[:16]}"


def _digest(*folders: str) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        found = (p for p in (_PACKAGE / folder).rglob("*") if p.suffix in {".py", ".c", ".h", ".in"})
        for path in sorted(found):
            digest.update(f"{path.relative_to(_PACKAGE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
