"""The printed Python: a golden file, and that its text is what runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spacedsl.compiler import compile_space
from spacedsl.compiler.python.names import RUNTIME, TABLES
from spacedsl.language.loader import load_space
from spacedsl.language.space import Space
from tests.engine.examples import load_text

SPACE = Path(__file__).parent / "small.space"
PIPELINE = Path(__file__).parents[1] / "language" / "corpus" / "pipeline.space"


def test_the_propagators_of_a_small_space_read_as_they_did(golden: Callable[[str, str], None]) -> None:
    golden("small.py.txt", compile_space(load_space(SPACE)).python_source)


def test_every_propagator_quotes_the_line_that_it_comes_from() -> None:
    compiled = compile_space(load_space(SPACE))
    functions = {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse(compiled.python_source).body
        if isinstance(node, ast.FunctionDef)
    }
    for propagator in compiled.module.propagators:
        for span in propagator.spans:
            assert f"small.space:{span.line}" in functions[propagator.name]
            assert span.text.splitlines()[0].strip() in functions[propagator.name]


def test_the_legend_of_a_space_of_pipelines_reads_as_it_did(golden: Callable[[str, str], None]) -> None:
    source = compile_space(load_space(PIPELINE)).python_source
    golden("pipeline-legend.txt", source.split("SATURATED")[0])


@pytest.mark.parametrize("file", [SPACE, PIPELINE])
def test_every_table_has_a_row_every_function_a_docstring_and_every_quantity_its_text(file: Path) -> None:
    space = load_space(file)
    source = compile_space(space).python_source
    legend, body = source.split("SATURATED = ")
    for table in set(re.findall(r"\b(?:host|mask|limit)_\d+", body)):
        assert re.search(rf"^# {table}\b", legend, re.MULTILINE)
    for node in ast.parse(source).body:
        assert not isinstance(node, ast.FunctionDef) or ast.get_docstring(node)
    for quantity in space.quantities.values():
        assert f"# {file.name}:{quantity.span.line}: {quantity.name}(" in legend
        line = quantity.span.source.line(quantity.span.line)
        assert f"#     {line}\n" in legend


def test_the_legend_speaks_in_the_variables_of_the_first_place_that_asks() -> None:
    text = """
set Things: iterator = "()" end
choice integer size($x in Things): "$x.sizes" end
choice integer width($x in Things): "$x.widths" end
require forall $a in Things: size($a) < 4 || width($a) + "$a.rim" >= 3
require forall $b in Things: size($b) < 4 || width($b) == size($b)
"""
    legend = compile_space(load_text(text)).python_source.split("SATURATED")[0]
    rows = [" ".join(row.split()) for row in legend.splitlines() if row.startswith("# ")]
    assert '# size a bit for each integer of "$x.sizes", the least one 0b1' in rows
    assert [row for row in rows if row.startswith("# mask_")] == [
        "# mask_0[a] bits of size($a) for which size($a) < 4",
        '# mask_1[a] bits of width($a) for which width($a) + "$a.rim" >= 3',
    ]
    assert "is twice the integer at cell c plus 1" in " ".join(legend.replace("#", "").split())


def test_a_space_is_compiled_once() -> None:
    assert compile_space(load_space(SPACE)) is compile_space(load_space(SPACE))


def test_the_python_module_is_printed_once_it_is_asked_for() -> None:
    compiled = compile_space(replace(load_space(SPACE), digest=""))
    assert not {"python", "code"} & vars(compiled).keys()
    assert compiled.python_source
    assert vars(compiled).keys() >= {"python"}


def test_names_of_variables_and_choices_never_clash_with_those_of_the_generated_code() -> None:
    from tests.engine.small import SETS, world

    text = """
choice enum narrow($v in Things, $lambda in Things):
  value A:
  value B:
end
choice enum v($at_v in Things):
  value A:
  value B:
end
choice counter lo($hi in Things): forall $later in Things: sum 1 when: narrow($hi, $later) is A end
require forall $v in Things: forall $lambda in Things: forall $mask in Things:
  narrow($v, $lambda) is A || narrow($lambda, $mask) is A || v($mask) is B
require forall $hi in Things: lo($hi) <= 1
"""
    here = world(text, 3)
    a, b, _ = here.things
    decided = here.made(here.root(), "narrow", a, b, to=("A",))
    assert decided.interval("lo", a) == (1, 1)
    assert isinstance(load_text(SETS + text), Space)


@pytest.mark.parametrize("name", ["to", "from", "drop_above", "totals"])
def test_a_choice_may_be_called_as_an_operation_of_the_engine(name: str) -> None:
    from tests.engine.small import world

    text = f"""
choice enum {name}($x in Things): value A: value B: end
choice integer size($x in Things): "$x.sizes" end
choice counter total(): forall $x in Things: sum size($x) when: {name}($x) is A end
require forall $x in Things: forall $y in Things: {name}($x) is A || {name}($y) is A
require total() <= 3
"""
    here = world(text, 2)
    a, b = here.things
    decided = here.made(here.made(here.root(), name, a, to=("A",)), name, b, to=("A",))
    assert decided.possible("size", a) == (1, 2)
    assert not any(TABLES.match(each) for each in RUNTIME)


@pytest.mark.parametrize(
    "text",
    [
        "require forall $x in Things: kind($x) is A // a\0b \x1a\f",
        "require forall $__debug__ in Things: forall $__debug_ in Things: "
        "kind($__debug__) is A || kind($__debug_) is A",
        "require forall $of___x in Things: forall $__x in Things: kind($of___x) is A || kind($__x) is A",
    ],
)
def test_whatever_stands_in_a_space_its_propagators_are_python(text: str, tmp_path: Path) -> None:
    path = tmp_path / 'a\\x"""b.space'
    declared = 'set Things: iterator = "()" end\nchoice enum kind($x in Things): value A: value B: end\n'
    path.write_text(declared + text)
    assert compile_space(load_space(path)).code


def test_text_that_looks_like_python_stays_in_its_docstring() -> None:
    text = """
set Things: iterator = "()" end
choice enum kind($x in Things):
  value A:
  value B:
end
require forall $x in Things: kind($x) is A || "'\\n' == 'a' or '""' == ''"
""".replace("'\"\"'", "''")
    source = compile_space(load_text(text)).python_source
    assert ast.parse(source)


def test_what_a_limit_removes_is_said_and_a_node_is_asked_about() -> None:
    text = """
set Things: iterator = "()" end
choice integer size($x in Things): "[1, 2]" end
quantity total() = sum $x in Things: (size($x))
require forall $x in Things: size($x) < total() || size($x) == 1
require total() <= 4
"""
    source = compile_space(load_text(text)).python_source
    assert "removes each value of a choice with which" in " ".join(source.split())
    assert "if possible(limit_0[x]):" in source
    assert "require(limit_1[()])" in source


@pytest.mark.parametrize("condition", ["", '"$x.is_odd"'])
def test_a_counter_takes_no_branch_that_decides_nothing(condition: str) -> None:
    text = f"""
set Items: iterator = "$kernel.items" end
choice integer size($x in Items): "$x.sizes" end
choice counter total(): forall $x in Items: sum size($x) when: {condition}
end
choice counter items(): forall $x in Items: sum 1 when: {condition}
end
trigger forall $x in Items: "$kernel.add_copy($x)" when size($x) == 2
require total() <= 4 && items() <= 4
"""
    body = compile_space(load_text(text)).python_source.split("SATURATED = ")[1].split("\n", 1)[1]
    functions = {node.name: node for node in ast.parse(body).body if isinstance(node, ast.FunctionDef)}

    def tests(name: str) -> list[str]:
        """Of branches that do something about the counter's limits."""
        return [
            ast.unparse(node.test)
            for after in ast.walk(functions[name])
            if isinstance(after, ast.If) and "lo <" in ast.unparse(after.test)
            for node in ast.walk(after)
            if isinstance(node, ast.If) and node is not after
        ]

    certain = "v[present_Items[x]] == 2" + (" and host_0[x]" if condition else "")
    assert tests("count_items") == []
    assert tests("count_total") == [certain, "v[total + 1] < SATURATED"]
    assert not any(node.orelse for node in ast.walk(functions["count_total"]) if isinstance(node, ast.If))
