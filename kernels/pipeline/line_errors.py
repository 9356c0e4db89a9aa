"""What is wrong with `stages:` that the grammar refuses.

In: the parser's error and the text. Out: a diagnostic with the repair, also for what other languages write.
Stages that the grammar accepts are checked in `resolution.py`.
"""

from __future__ import annotations

import re
from typing import get_args

from lark.exceptions import UnexpectedInput

from spacedsl.diagnostics import Diagnostic
from spacedsl.kernels.line_errors import unexpected
from spacedsl.kernels.located_yaml import PlacedText
from spacedsl.kernels.pipeline.syntax import Reducer

_WORDS = {
    "EQUAL": "`=`", "LPAR": "`(`", "RPAR": "`)`", "LSQB": "`[`", "RSQB": "`]`", "COMMA": "`,`",
    "COLON": "`:`", "NAME": "a name", "INTEGER": "a number", "IN": "`in`", "$END": "the end",
}  # fmt: skip

_RANGE = "a range is written `r in 0:10`"
_RANGE_NAMED = re.compile(rf"\b({'|'.join(get_args(Reducer))})\s*\[([^\[\]]*,)?\s*[A-Za-z_]\w*$")
"""The beginning of a reduction, up to the name of one of its ranges."""


def syntax_error(error: UnexpectedInput, text: PlacedText) -> Diagnostic:
    """KF020 at what was not expected."""
    is_any = bool(re.sub(r"#.*", "", text.text).strip())
    at_end = "the stages end too early" if is_any else "there is no stage"
    return unexpected(error, text, _WORDS, _repair, at_end)


def _repair(text: str, at: int) -> str | None:
    """What was probably meant by something that other languages write."""
    before = text[:at].rstrip()
    if text[at] == "*" and before.endswith("*"):
        return "powers are written `pow(x, y)`"
    if text[at] in "]," and _RANGE_NAMED.search(before):
        return _RANGE
    if text[at] == "[" and re.search(r"[A-Za-z_]\w*$", before):
        return "points stand in parentheses: `f(x, y)`"
    if text[at] == "?" or re.match(r"(if|else)\b", text[at:]):
        return "a choice is written `select(condition, a, b)`"
    if re.match(r"(and|or|not)\b", text[at:]):
        return "conditions are joined by `&&`, `||` and `!`"
    if text[at : at + 2] in ("/=", "%="):
        return "updates are written `=`, `+=`, `-=`, `*=`, `min=` or `max=`"
    if text[at] == "=":
        return "comparisons are written `==`, `!=`, `<=` and `>=`"
    if text[at] == "." and before.endswith((":", ".")):
        return _RANGE
    return None
