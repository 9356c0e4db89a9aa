"""What is written down about kernel files is true."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

from spacedsl.diagnostics import DiagnosticError, Source, render
from spacedsl.kernels.backbones import check_file, load_any
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.schema import KernelEntry, PipelineEntry

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "kernel-files.md").read_text(encoding="utf-8")


def outcome(text: str) -> str:
    try:
        check_file(Source("matmul.yaml", text), Path("matmul.yaml"))
    except DiagnosticError as error:
        return "\n".join(map(render, error.diagnostics)) + "\n"
    return ""


def test_every_example_of_the_page_loads_or_fails_as_shown() -> None:
    blocks = [(m[1], m[2]) for m in re.finditer(r"```(yaml|text)\n(.*?)```", PAGE, re.S)]
    examples = [text for kind, text in blocks if kind == "yaml"]
    shown = {
        a: b for (kind, a), (after, b) in itertools.pairwise(blocks) if (kind, after) == ("yaml", "text")
    }
    assert len(examples) >= 5
    assert len(shown) == 1
    for text in examples:
        assert outcome(text) == shown.get(text, "")


def test_the_example_in_python_is_the_one_in_text(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (text,) = re.findall(r"```yaml\n(kernel: sharpen\n.*?)```", PAGE, re.S)
    (tmp_path / "sharpen.py").write_text(example)
    written, built = check_file(Source("sharpen.yaml", text), Path()), load_any(tmp_path / "sharpen.py:build")
    assert isinstance(written, PipelineFile)
    assert isinstance(built, PipelineFile)
    assert built.algorithm == written.algorithm


def test_every_key_is_in_the_table_of_the_page() -> None:
    _, _, after = PAGE.partition("\n## Keys\n")
    section, _, _ = after.partition("\n## ")
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == list(KernelEntry.model_fields)


def test_every_key_of_a_pipeline_is_in_the_table_of_its_section() -> None:
    _, _, after = PAGE.partition("\n## Pipelines\n")
    section, _, _ = after.partition("\n## ")
    shared = ["kernel", "backbone", "sizes"]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section, re.M)
    named = [name for row in rows for name in re.findall(r"\w+", row)]
    assert sorted(shared + named) == sorted(PipelineEntry.model_fields)


def test_every_code_that_is_reported_is_in_a_test() -> None:
    # What only a space or a search can refuse in a kernel file is reported by those who bring them together.
    folders = (
        "kernels", "kernels/pipeline", "kernels/pipeline/python", "kernels/plain", "spacedsl/api",
        "spacedsl/cli",
    )  # fmt: skip
    sources = [path for folder in folders for path in ROOT.glob(f"{folder}/*.py")]
    literals = [
        node.value
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    reported = {text for text in literals if re.fullmatch(r"KF\d{3}", text)}
    reported |= {f"KF{text}" for text in literals if re.fullmatch(r"00\d", text)}
    tests = (
        "kernels/test_kernel_file.py",
        "kernels/test_plain.py",
        "kernels/pipeline/test_mistakes.py",
        "kernels/pipeline/test_python_mistakes.py",
        "cli/test_mistakes.py",
    )
    tested = "".join((ROOT / "tests" / path).read_text(encoding="utf-8") for path in tests)
    assert sorted(code for code in reported if not re.search(rf'"{code}[":]', tested)) == []
