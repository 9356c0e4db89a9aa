"""`FILE.py:FUNCTION`: a kernel file that Python writes.

In: a function by its name, and sizes from the command line. Out: the text of a kernel file, or a
`DiagnosticError` with a place in the user's Python for whatever happens there. The function's arguments that
have whole numbers from 1 on as defaults are the sizes. What it prints goes to stderr.
"""

from __future__ import annotations

import importlib
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import MappingProxyType, ModuleType

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span
from spacedsl.kernels.kernel_source import PythonFunction
from spacedsl.kernels.pipeline import definitions
from spacedsl.kernels.pipeline.python.assembly import text_of
from spacedsl.kernels.pipeline.python.callers import Caller
from spacedsl.kernels.pipeline.python.funcs import Pipeline
from spacedsl.kernels.pipeline.typing import DefinitionError
from spacedsl.kernels.sizes import overridden
from spacedsl.kernels.validation import closest


def kernel_text(named: PythonFunction, sizes: Mapping[str, int] = MappingProxyType({})) -> str:
    """The kernel file that the function's pipeline is, at these sizes.

    Raises `OSError` where the file cannot be read, `SizeOverrideError` for a wrong entry of `sizes`,
    `DiagnosticError` (KF068) where the user's code fails, and (KF069) where it makes no pipeline.
    """
    with _own_modules(named.file.resolve().parent):
        return _kernel_text(named, sizes)


def _kernel_text(named: PythonFunction, sizes: Mapping[str, int]) -> str:
    source = Source.read(named.file)
    module = ModuleType(f"{named.file.stem} of a pipeline")
    module.__file__ = source.name
    with _running(source, module):
        exec(compile(source.text, source.name, "exec", dont_inherit=True), vars(module))
    function = _function(source, module, named)
    known = overridden(named.name, _sizes(source, function), sizes)
    with _running(source, module):
        pipeline = function(**known)
    if not isinstance(pipeline, Pipeline):
        if inspect.iscoroutine(pipeline):
            pipeline.close()  # nobody will await it
        made = "nothing" if pipeline is None else f"a {type(pipeline).__name__}"
        hint = f'end with `return Pipeline("{named.name}", f.output(640, 480))`'
        message = f"`{named.name}` returns {made}, not a Pipeline"
        raise _no_pipeline(message, _header(source, function), hint)
    return text_of(pipeline, known)


def _function(source: Source, module: ModuleType, named: PythonFunction) -> Callable[..., object]:
    functions = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }
    if named.name in functions:
        return functions[named.name]
    start = Span(source, 0, 0)
    if not named.name:
        hint = f"`{named.file}:{next(reversed(functions), 'build')}`, for example"
        raise _no_pipeline("which function builds the pipeline?", start, hint)
    message = f"no function is called `{named.name}` in {named.file.name}"
    raise _no_pipeline(message, start, closest(named.name, functions))


def _sizes(source: Source, function: Callable[..., object]) -> dict[str, int]:
    """Arguments with whole numbers from 1 on as defaults; those with other defaults stay as they are."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        is_open = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        has_default = parameter.default is not parameter.empty
        is_size = type(parameter.default) is int and parameter.default > 0
        if is_open or (has_default and not is_size):
            continue
        if not has_default or parameter.kind is parameter.POSITIONAL_ONLY:
            message = f"the argument `{name}` of `{function.__name__}` cannot be given as a size"
            hint = f"a size has a name and a default: `{name}=640`"
            raise _no_pipeline(message, _header(source, function), hint)
        try:
            found[definitions.named(name)] = parameter.default
        except DefinitionError as error:
            span = _header(source, function)
            raise DiagnosticError([Diagnostic(error.code, str(error), span, error.hint)]) from None
    return found


def _no_pipeline(message: str, span: Span, hint: str | None) -> DiagnosticError:
    return DiagnosticError([Diagnostic("KF069", message, span, hint)])


def _header(source: Source, function: Callable[..., object]) -> Span:
    """The line that a function begins with."""
    line = inspect.unwrap(function).__code__.co_firstlineno
    start = source.line_starts[line - 1]
    text = source.line(line)
    return Span(source, start + len(text) - len(text.lstrip()), start + len(text))


@contextmanager
def _own_modules(folder: Path) -> Iterator[None]:
    """Forgets the modules beside a file that are imported meanwhile: another file may have others of the same
    names, and these may change.
    """
    known = {name.partition(".")[0] for name in sys.modules}
    try:
        yield
    finally:
        for name in list(sys.modules):
            top = name.partition(".")[0]
            if top not in known and _place(sys.modules[top]) in (folder / top, folder / f"{top}.py"):
                del sys.modules[name]


def _place(module: ModuleType) -> Path | None:
    """The file of a module, the folder of a package."""
    folder = next(iter(getattr(module, "__path__", ())), None)
    place = folder or getattr(module, "__file__", None)
    return None if place is None else Path(place).resolve()


@contextmanager
def _running(source: Source, module: ModuleType) -> Iterator[None]:
    """Where the user's code runs: beside its own modules, and what fails there is said with its place."""
    before = sys.path[:]
    sys.path.insert(0, str(Path(source.name).resolve().parent))
    sys.modules[module.__name__] = module  # where classes look for the module that they are of
    importlib.invalidate_caches()
    linecache.checkcache()
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (DiagnosticError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        if error.filename != source.name:
            raise _failed(source, error) from None
        start = source.line_starts[min(error.lineno or 1, len(source.line_starts)) - 1]
        at = min(start + max(error.offset or 1, 1) - 1, len(source.text))
        raise _error(f"this is no Python: {error.msg}", Span(source, at, at)) from None
    except (Exception, SystemExit) as error:
        raise _failed(source, error) from None
    finally:
        sys.path[:] = before
        sys.modules.pop(module.__name__, None)


def _failed(source: Source, error: BaseException) -> DiagnosticError:
    caller = Caller.of(error.__traceback__, source.name)
    span = Span(source, 0, 0) if caller is None else caller.span()
    words = str(error).strip().splitlines()
    kind = type(error).__name__
    return _error(f"{kind}: {words[0]}" if words else kind, span)


def _error(message: str, span: Span) -> DiagnosticError:
    return DiagnosticError([Diagnostic("KF068", message, span)])
