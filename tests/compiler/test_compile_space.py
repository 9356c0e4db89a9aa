"""A compiled space is kept for the files that it was made of."""

from __future__ import annotations

from spacedsl.compiler import compile_space
from spacedsl.diagnostics import Source
from spacedsl.language.loader import check_source
from spacedsl.language.space import Space

TEXT = 'set Items: iterator = "$kernel.items" end\nchoice integer size($x in Items): "()" end\n'


def checked(name: str) -> Space:
    space, _ = check_source(Source(name, TEXT))
    assert space is not None
    return space


def test_a_text_is_compiled_once_for_each_file_that_messages_name() -> None:
    one, two = compile_space(checked("one.space")), compile_space(checked("two.space"))
    assert [each.space.sets["Items"].span.source.name for each in (one, two)] == ["one.space", "two.space"]
    assert compile_space(checked("one.space")) is one
