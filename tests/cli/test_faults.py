"""What an exception means to the user of the command line."""

from __future__ import annotations

from spacedsl.cli.faults import ExitCode, explain


def test_a_package_that_is_missing_is_a_lack_of_the_environment() -> None:
    fault = explain(ModuleNotFoundError("No module named 'scipy.stats'", name="scipy.stats"))
    assert fault.code is ExitCode.ENVIRONMENT
    assert "scipy.stats" in fault.message
    assert fault.hint is not None and "make setup" in fault.hint


def test_a_module_of_the_project_that_is_missing_is_a_bug() -> None:
    assert explain(ModuleNotFoundError(name="spacedsl.nothing")).code is ExitCode.INTERNAL
