"""The shape of the repository: who imports whom, and what every module keeps to.

Read from the syntax trees, so nothing here depends on what happens to be imported at run time.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINKS = ("codegen", "grammars", "kernels", "search")

CORE = ("spacedsl.files", "spacedsl.diagnostics", "spacedsl.language", "spacedsl.compiler", "spacedsl.engine")
# What the modules of a package may import of this project; the longest matching name decides.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "spacedsl": ("spacedsl.api", "spacedsl.loaded"),
    "spacedsl.__main__": ("spacedsl.cli",),
    "spacedsl.loaded": (),
    "spacedsl.diagnostics": (),
    "spacedsl.commands": (),
    "spacedsl.c_compilers": (),
    "spacedsl.processes": (),
    "spacedsl.files": (),
    "spacedsl.language": ("spacedsl.files", "spacedsl.diagnostics", "spacedsl.language"),
    "spacedsl.compiler": (
        "spacedsl.c_compilers",
        "spacedsl.loaded",
        "spacedsl.diagnostics",
        "spacedsl.language",
        "spacedsl.compiler",
    ),
    "spacedsl.engine": CORE,
    "spacedsl.oracle": ("spacedsl.diagnostics", "spacedsl.language", "spacedsl.oracle"),
    "spacedsl.record": (
        "spacedsl.diagnostics",
        "spacedsl.engine.decision",
        "spacedsl.files",
        "spacedsl.kernels.evaluation",
    ),
    "spacedsl.kernels": (*CORE, "spacedsl.kernels"),
    # What users write.
    "spacedsl.kernels.library": ("spacedsl.kernels.library", "spacedsl.pipeline"),
    "spacedsl.pipeline": ("spacedsl.engine.decision", "spacedsl.kernels.pipeline.python"),
    "spacedsl.search": (*CORE, "spacedsl.processes", "spacedsl.kernels", "spacedsl.search"),
    "spacedsl.codegen": (
        *CORE,
        "spacedsl.c_compilers",
        "spacedsl.processes",
        "spacedsl.kernels",
        "spacedsl.codegen",
    ),
    "spacedsl.api": (
        *CORE,
        "spacedsl.oracle",
        "spacedsl.c_compilers",
        "spacedsl.commands",
        "spacedsl.record",
        "spacedsl.kernels",
        "spacedsl.search",
        "spacedsl.codegen",
        "spacedsl.api",
    ),
    "spacedsl.lsp": (*CORE, "spacedsl.kernels", "spacedsl.lsp"),
    "spacedsl.cli": ("spacedsl",),
}
ENVIRONMENT = {"CC", "NO_COLOR", "FORCE_COLOR", "SOAK_MINUTES"}


def modules() -> dict[str, Path]:
    """Every module by its import name."""
    found = {}
    for top in ("spacedsl", *LINKS):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if len(parts) > 2 and parts[0] == "spacedsl" and parts[1] in LINKS:
                continue  # some versions of Python follow the links
            dotted = ".".join(part for part in parts if part != "__init__")
            found[dotted if top == "spacedsl" else f"spacedsl.{dotted}"] = path
    return found


MODULES = modules()
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imports(tree: ast.Module, is_relevant: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """(line, module) of each import, wherever it stands, whose first name is one of `is_relevant`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            # `from spacedsl import kernels` names a package as much as `from spacedsl.kernels import x`.
            names = [
                f"{node.module}.{alias.name}" if node.module == "spacedsl" else str(node.module)
                for alias in node.names
            ]
        else:
            continue
        for name in names:
            if name.split(".")[0] in is_relevant:
                yield node.lineno, name


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def owner(module: str) -> str:
    return max((package for package in MAY_IMPORT if is_within(module, package)), key=len)


def test_the_modules_of_every_package_are_found() -> None:
    assert {owner(name) for name in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("module", MODULES)
def test_imports_keep_to_the_direction_between_packages(module: str) -> None:
    allowed = MAY_IMPORT[owner(module)]
    wrong = [
        f"line {line}: {name}"
        for line, name in imports(TREES[module], ("spacedsl",))
        if not any(is_within(name, package) for package in allowed)
    ]
    assert not wrong, f"{module} may import {', '.join(allowed) or 'nothing of spacedsl'}, not {wrong}"


def test_the_top_level_folders_are_never_import_names() -> None:
    tests = {
        str(path): ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")
    }
    wrong = [f"{name}:{line}" for name, tree in (TREES | tests).items() for line, _ in imports(tree, LINKS)]
    assert not wrong, "import these as spacedsl.kernels, spacedsl.search, ..."


@pytest.mark.parametrize("module", MODULES)
def test_imports_are_absolute(module: str) -> None:
    assert not [n.lineno for n in ast.walk(TREES[module]) if isinstance(n, ast.ImportFrom) and n.level]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_with_content_says_what_it_is_for(module: str) -> None:
    assert not TREES[module].body or ast.get_docstring(TREES[module])


@pytest.mark.parametrize("module", [name for name in MODULES if owner(name) != "spacedsl.cli"])
def test_only_the_command_line_prints(module: str) -> None:
    calls = [n for n in ast.walk(TREES[module]) if isinstance(n, ast.Call)]
    # What a batch is run with is a command of its own, on another machine.
    if module != "spacedsl.codegen.cuda.batches.run_batch":
        assert not [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
    assert not list(imports(TREES[module], ("rich", "typer")))


@pytest.mark.parametrize("module", MODULES)
def test_behaviour_is_not_configured_by_environment_variables(module: str) -> None:
    names = set()
    for node in ast.walk(TREES[module]):
        match node:
            case (
                ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=str(key)))
                | ast.Call(
                    func=ast.Attribute(value=ast.Attribute(attr="environ")),
                    args=[ast.Constant(value=str(key)), *_],
                )
                | ast.Call(func=ast.Attribute(attr="getenv"), args=[ast.Constant(value=str(key)), *_])
            ):
                names.add(key)
    assert not {name for name in names - ENVIRONMENT if not name.startswith("XDG_")}


def test_the_dependencies_are_what_the_packages_import() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}

    imported = {
        name.split(".")[0]
        for tree in TREES.values()
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    } - {"spacedsl", *sys.stdlib_module_names}
    # NVRTC is a library, and no module.
    optional = names(extras["pandas"]) | names(extras["lsp"]) | names(extras["cuda"]) - {"nvidia-cuda-nvrtc"}
    assert imported == names(project["dependencies"]) | optional


def test_types_are_checked_in_every_folder_of_modules() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert set(mypy["files"]) == folders - set(LINKS)


@pytest.mark.parametrize("link", LINKS)
def test_the_packages_are_relative_links_to_the_top_level_folders(link: str) -> None:
    path = ROOT / "spacedsl" / link
    assert path.is_symlink()
    assert path.readlink() == Path("..") / link
    assert (ROOT / link).is_dir()


def test_every_data_file_of_the_packages_is_packaged() -> None:
    """A file that is neither Python nor named in the package data would be missing after `pip install .`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packaged = {
        path.resolve()
        for package, patterns in project["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")).glob(pattern)
    }
    found = {
        path.resolve()
        for top in ("spacedsl", *LINKS)
        for path in (ROOT / top).rglob("*")
        if path.is_file() and path.suffix != ".py" and not {"__pycache__", "node_modules"} & {*path.parts}
    }
    assert found == packaged
