"""What a space, or a search, would find wrong in a kernel file, without searching.

In: the path of a kernel file. Out: every diagnostic of it, of its space and of the GPU that it names. Nothing
is measured: a CPU is one that is shipped. Whether the constraints allow the decisions of the file is for a
search to say: it may depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spacedsl.api.problem import UnknownNameError, check_known, wrong_decisions
from spacedsl.api.solving import DEVICE
from spacedsl.api.targets import gpu_of_file
from spacedsl.compiler import compile_space
from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.kernels.backbones import AnyKernel, MeasurableKernel, load_any
from spacedsl.kernels.device import Device, gpus, load_any_device
from spacedsl.kernels.kernel_file import locate
from spacedsl.kernels.plain.kernel_file import PlainFile
from spacedsl.language.loader import load_space
from spacedsl.search.orderings import select_ordering
from spacedsl.search.policies import POLICIES


def check_kernel(path: Path) -> tuple[Diagnostic, ...]:
    """What is odd in a file that is right. What it decides has to be there on the target that it names, or on
    CPUs.

    Raises `DiagnosticError` with all that is wrong, `OSError` where the file cannot be read.
    """
    kernel = load_any(path)
    report: list[Diagnostic] = []
    remarks: tuple[Diagnostic, ...] = ()
    if isinstance(kernel, PlainFile):
        _look(lambda: _check_rules(kernel, kernel.space, None), report)
    else:
        machine = _check_search(kernel, report)
        made = kernel.made_for(machine.kind)
        _look(lambda: _check_rules(made, made.space_for(machine.kind), machine), report)
        remarks = made.remarks
    if report:
        raise DiagnosticError((*remarks, *report))
    return remarks


def _look(check: Callable[[], None], report: list[Diagnostic]) -> None:
    try:
        check()
    except DiagnosticError as error:
        report += error.diagnostics


def _check_search(kernel: MeasurableKernel, report: list[Diagnostic]) -> Device:
    """The machine that decisions are looked at for; KF044 for names that there are not."""
    policy, device = kernel.search.policy, None
    try:
        if policy is not None:
            check_known("policy", policy, POLICIES)
    except UnknownNameError as error:
        report.append(Diagnostic("KF044", str(error), locate(kernel, "search", "policy")))
    try:
        device = gpu_of_file(kernel)
    except DiagnosticError as error:
        report += error.diagnostics
    if kernel.search.target != "cuda":
        return load_any_device(DEVICE)
    return device or load_any_device(next(iter(gpus().values())))


def _check_rules(kernel: AnyKernel, space: Path, device: Device | None) -> None:
    """The space, and what the file says of its choices: decisions, and an ordering of a search. What a plain
    kernel gives the host expressions of its space shows only in its instance.
    """
    compiled = compile_space(load_space(space))
    ordering: str | None = None
    if isinstance(kernel, PlainFile):
        instance = instantiate(compiled, kernel.backbone, device, Engine.PYTHON)
        instance.root()
    else:
        ordering = kernel.search.ordering
        if not kernel.decisions and ordering is None:
            return
        instance = instantiate(compiled, kernel.backbone, device, Engine.NATIVE)
    report = [*wrong_decisions(kernel, instance)]
    try:
        select_ordering(instance, instance.space, ordering)
    except DiagnosticError as error:
        report += error.at(locate(kernel, "search", "ordering")).diagnostics
    if report:
        raise DiagnosticError(report)
