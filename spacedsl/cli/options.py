"""The flags that several commands share, and the defaults that stand in files.

In: the command line, `[tool.spacedsl]` of a pyproject.toml (or `--config FILE`), the `search:` block of a
kernel file. Out: one frozen `Settings`. The command line wins over the kernel file, the kernel file over
the configuration, and that over the defaults below.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from spacedsl.cli.faults import CommandError
from spacedsl.commands import command


def a_space(file: Path | None) -> Path | None:
    """The path of a space, as a callback of typer: a kernel file in its place is a usage error."""
    if file is not None and file.suffix in {".yaml", ".yml"} and _exists(file):
        raise typer.BadParameter(f"{file}: not a .space file")
    return file


def _exists(file: Path) -> bool:
    """Whatever makes its path one that cannot even be looked at is wrong usage."""
    try:
        return file.exists()
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None


AnyKernel = Annotated[
    Path,
    typer.Argument(
        metavar="KERNEL.yaml",
        help="A kernel file of any backbone, or FILE.py:FUNCTION, which builds a pipeline.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but results and errors.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A TOML file with a \\[tool.spacedsl] table."),
]
Sizes = Annotated[
    list[str] | None,
    typer.Option("--size", metavar="m=97", help="A size or integer parameter, over the file's. Repeatable."),
]
SpaceFile = Annotated[
    Path | None,
    typer.Option(
        "--space", metavar="FILE", callback=a_space, help="The rules to use, over the kernel's own."
    ),
]


def a_device(file: Path | None) -> Path | None:
    """The path of a description, as a callback of typer: a GPU that is shipped goes by its name."""
    from spacedsl.kernels.device import gpus
    from spacedsl.kernels.validation import closest

    if file is None or file.suffix in {".yaml", ".yml"} or _exists(file):
        return file
    known = gpus()
    if str(file) not in known:
        hint = closest(str(file), known) or f"there are {', '.join(known)}, and files (.yaml)"
        raise typer.BadParameter(f"no GPU is called `{file}`; {hint}")
    return known[str(file)]


DeviceFile = Annotated[
    Path | None,
    typer.Option(
        "--device",
        metavar="NAME|FILE",
        callback=a_device,
        help="What it is for: a GPU (`h100`), or a file. Default: what the kernel file names, or a CPU.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option("--target", metavar="cpu|cuda", help="What a kernel is for. Default: what `--device` is."),
]

DEFAULT_TIME_S = 180.0
_A_TIME = "a length of time such as '3m'"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a search is asked to do; None where the default of the search itself holds."""

    target: str | None = None
    device: str | None = None
    time_s: float | None = None
    evaluations: int | None = None
    ordering: str | None = None
    policy: str | None = None
    seed: int | None = None
    runs: Path | None = None

    def over(self, other: Settings) -> Settings:
        """These settings, and those of `other` where none is made here.

        A budget replaces a budget: `--evaluations 20` is not also limited by a time from a file.
        """
        merged = {
            f.name: mine if (mine := getattr(self, f.name)) is not None else getattr(other, f.name)
            for f in fields(self)
        }
        if self.time_s is not None or self.evaluations is not None:
            merged |= {"time_s": self.time_s, "evaluations": self.evaluations}
        return Settings(**merged)


def explain_hint(
    kernel: Path,
    sizes: Iterable[str] | None,
    space: Path | None,
    target: str | None,
    device: Path | str | None,
) -> str:
    """What says why a space is empty: `spacedsl explain` on the same kernel, sizes, rules and machine."""
    flags = [word for text in sizes or () for word in ("--size", text)]
    for flag, given in (("--space", space), ("--target", target), ("--device", device)):
        flags += [flag, str(given)] if given else []
    return f"`{command('explain', str(kernel), *flags)}` says which constraints conflict"


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `3m`, `1h30m`, or of a plain number of seconds."""
    from spacedsl.kernels.search_options import budget_s

    seconds = budget_s(text)
    if seconds is None:
        raise CommandError(f"`{text}` is not a length of time", hint="write 90s, 3m or 1h30m")
    return seconds


def parse_sizes(items: Iterable[str]) -> dict[str, int]:
    """The sizes of `m=97` or `m=97,n=61`. Whether the kernel has them is for its loader to say."""
    from spacedsl.kernels.sizes import whole_number

    sizes: dict[str, int] = {}
    for item in (part for text in items for part in text.split(",")):
        match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*([+-]?\d\w*)\s*", item)
        number = None if match is None else whole_number(match[2])
        if match is None or number is None:
            shown = item if len(item) < 80 else f"{item[:60]}.."
            raise CommandError(
                f"`--size {shown}` is not of the form NAME=NUMBER", hint="for example --size m=97"
            )
        name = match[1]
        if sizes.get(name, number) != number:
            raise CommandError(f"--size gives `{name}` twice: {sizes[name]} and {number}")
        sizes[name] = number
    return sizes


def configuration(file: Path | None) -> Settings:
    """The settings of `--config FILE`, or of the nearest pyproject.toml at or above the working folder."""
    read = configuration_file(file)
    return Settings() if read is None else _read(read, is_named=file is not None)


def configuration_file(file: Path | None) -> Path | None:
    """Where they stand; None where there is no such file."""
    folders = (Path.cwd(), *Path.cwd().parents)
    return file or next((f / "pyproject.toml" for f in folders if (f / "pyproject.toml").is_file()), None)


def _read(file: Path, *, is_named: bool) -> Settings:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: this is not TOML: {error}") from None
    tool = document.get("tool", {})
    table = tool.get("spacedsl") if isinstance(tool, dict) else None
    if table is None:
        if is_named:
            raise CommandError(f"{file}: there is no table [tool.spacedsl] in it")
        return Settings()
    if not isinstance(table, dict):
        raise CommandError(f"{file}: `tool.spacedsl` must be a table")
    return _settings(file, table)


def _settings(file: Path, table: Mapping[str, Any]) -> Settings:
    def wrong(key: str, wanted: str) -> CommandError:
        return CommandError(f"{file}: [tool.spacedsl] `{key}` must be {wanted}, not {table[key]!r}")

    settings: dict[str, Any] = {}
    for key, value in table.items():
        is_number = isinstance(value, int) and not isinstance(value, bool)
        match key:
            case "time" if isinstance(value, str | float) or is_number:
                try:
                    settings["time_s"] = parse_duration(str(value))
                except CommandError:
                    raise wrong(key, _A_TIME) from None
            case "time":
                raise wrong(key, _A_TIME)
            case "evaluations" | "seed":
                least = 1 if key == "evaluations" else 0
                if not is_number or value < least:
                    raise wrong(key, f"a whole number of at least {least}")
                settings[key] = value
            case "target" | "device" | "ordering" | "policy" | "runs":
                if not isinstance(value, str):
                    raise wrong(key, "text")
                settings[key] = file.parent / value if key == "runs" else value
            case _:
                hint = "keys are time, evaluations, seed, target, device, ordering, policy, runs"
                raise CommandError(f"{file}: [tool.spacedsl] has no key `{key}`", hint=hint)
    return Settings(**settings)
