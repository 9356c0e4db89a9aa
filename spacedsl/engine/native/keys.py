"""For which objects generated C may ask for a static value.

In: the questions of a space, the sets of an instance. Out: the keys of each host expression and each static
test, from the sets that its variables range over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spacedsl.compiler.c import TableKind
from spacedsl.compiler.c.questions import Loops, Question
from spacedsl.compiler.python import HostTable, StaticTable
from spacedsl.engine.arrays import distinct
from spacedsl.engine.native.bindings import Relations

Asked = tuple[TableKind, HostTable | StaticTable]
Key = tuple[int, ...]


def keys_of(questions: Iterable[Question], relations: Relations) -> Mapping[Asked, Mapping[Key, None]]:
    """The keys of all tables of values, in order of their first use."""
    found: dict[Asked, dict[Key, None]] = {}
    enumerated: dict[tuple[Loops, tuple[str, ...]], list[Key]] = {}
    for question in questions:
        asked = question.loops, question.args
        if asked not in enumerated:
            bindings = relations.enumerate(question.loops, {})
            enumerated[asked] = distinct([bindings[a] for a in question.args], 1)[0]
        keys = found.setdefault((question.kind, question.subject), {})
        keys.update(dict.fromkeys(enumerated[asked]))
    return found
