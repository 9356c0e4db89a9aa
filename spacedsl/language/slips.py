"""What people write who come from another language, or for the first time: tables, and nothing else.

Some are edits, which are offered when the parser, having made one, reads on. Of the others, a row says what
to write for a token that cannot follow (`SLIPS`), and for a character that begins none (`CHARACTERS`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Words = tuple[str, ...]

INSERTED: tuple[Words, ...] = (
    *((w,) for w in (":", "in", "=", ")", "(", ",", "when", "is", "end", "->", "}", "forall", "requires")),
    ("when", ":"),
    ("choice",),
    ("require",),
)
"""What a person leaves out, the likeliest first."""

REMOVED = frozenset({":", ",", ")", "end"})
"""What a person writes too often."""

REPLACED: tuple[tuple[str, Words], ...] = (
    ("=", ("is",)),
    ("=", ("==",)),
    ("=", ("->",)),
    ("=", ("in",)),
    (":", ("in",)),
    (":", ("=",)),
    (":", ("by",)),
    (",", (":", "forall")),
    (",", ("|",)),
    ("|", ("||",)),
    ("->", ("=>",)),
    ("->", ("in",)),
    ("->", (":",)),
    ("=>", ("->",)),
    ("=>", (":",)),
    ("==", ("=",)),
    ("not", ("!",)),
    ("in", ("is",)),
    ("of", ("in",)),
    ("by", ("/",)),
    ("if", ("when",)),
    ("for", ("forall",)),
    ("forall", ("for",)),
    ("requires", ("require",)),
    ("require", ("requires",)),
    ("constraint", ("require",)),
    ("assert", ("require",)),
    ("import", ("include",)),
    ("int", ("integer",)),
    ("prod", ("mul",)),
    ("product", ("mul",)),
    ("mul", ("prod",)),
    ("product", ("prod",)),
    ("default", ("else",)),
    ("otherwise", ("else",)),
    ("_", ("else",)),
)
"""What a person writes for something else; of one word, the first row that reads on holds."""

PYTHON = {"and": "&&", "or": "||"}
"""Names to the parser, which stumbles over what follows them."""


@dataclass(frozen=True, slots=True)
class Slip:
    """A token that cannot follow, and what was meant."""

    around: re.Pattern[str]
    """Matches the two tokens in front, `@`, the token and the next one; what is quoted is `""`."""
    expected: frozenset[str]
    """Is among what may come instead."""
    hint: str
    """With the groups of `around`, and `{rest}`: what stands there up to the next blank."""
    alone: bool = False
    """Whether nothing else than `expected` may come."""


def _slip(around: str, expected: str, hint: str, *, alone: bool = False) -> Slip:
    return Slip(re.compile(around), frozenset(expected.split()), hint, alone)


SLIPS = (
    # What stands in quotes.
    _slip(
        r"where @", "HOST", "`where` takes a host expression in double quotes; what is decided is a condition"
    ),
    _slip(r"include @", "HOST", 'the path stands in double quotes: `"{rest}"`', alone=True),
    _slip(
        r"(sum|mul) @ \$", "NUMBER", "the quantifiers of a counter stand in front: `forall $x in SET: sum ..`"
    ),
    _slip(r"@ \$", "HOST", 'what is asked of objects stands in double quotes: `"{rest}"`'),
    _slip(r"@ [a-z0-9]", "HOST", 'a host expression stands in double quotes: `"{rest}"`', alone=True),
    _slip(
        r'@ ""',
        "VARIABLE )",
        "an argument is a variable, or a map applied to one: declare `map NAME(..) in ..`",
    ),
    # Sets and bindings.
    _slip(r'@ ""', "disjoint", 'write `iterator = ".."`'),
    _slip(r"@ (=|\"\")", "subsetof", 'a set is declared as `set NAME: iterator = ".." end`'),
    _slip(r"@ (subset|of|in|<|extends) ", "subsetof", "write `subsetof`"),
    _slip(r"(?P<name>\$\w+) @ [):,]", "in", "say of which set: `{name} in SET`", alone=True),
    _slip(r"\) @ =", "in", "say of which set it gives an object: `in SET`", alone=True),
    _slip(r"in \w+ @", "= (", 'say which object it gives: `= "$x.attribute"`', alone=True),
    _slip(r"of @ (?P<set>[A-Z]\w*)", "VARIABLE", "bind a variable: `$x in {set}`", alone=True),
    _slip(r"@ ,", "where :", "each variable has a quantifier of its own: `sum $x in A: sum $y in B: ..`"),
    # Choices.
    _slip(
        r"(enum|integer|counter|quantity|map) \w+ @",
        "(",
        "parameters stand here: `($x in SET)`, or `()` where there are none",
        alone=True,
    ),
    _slip(r"choice @ (?P<name>\w+) \(", "enum", "say which kind of choice: `choice enum {name}(..)`"),
    _slip(r"choice @ (?P<word>quantity|map)", "enum", "a {word} is declared without `choice`"),
    _slip(r"choice @ (bool|boolean) ", "enum", "yes or no is a `choice enum` with two values"),
    _slip(r"@ ordered choice", "choice", "write `choice ordered enum`"),
    _slip(r"counter @ (?P<word>half|internal) ", "NAME", "write `choice {word} counter`", alone=True),
    _slip(r"@ (?P<value>[A-Z][A-Z0-9_]*)( |$)", "value", "write `value {value}:`"),
    _slip(r"[A-Z]\w* @ (,|>|<=|\|)", "< alias", "the values stand in ascending order: `A < B < C`"),
    _slip(r": @ value", "VALUE_NAME", "the values stand in ascending order first: `A < B < C`", alone=True),
    _slip(r"\) @ =", ":", 'an integer choice is declared as `choice integer NAME(..): ".." end`', alone=True),
    _slip(r'"" @ (,|"")', "end", 'one expression gives all values: `"[1, 2, 4]"`', alone=True),
    _slip(
        r"@ [-+*/(]",
        "when",
        "a counter adds one number, choice or counter; declare a `quantity` to compute",
        alone=True,
    ),
    _slip(r"@ count ", "mul", "a counter of ones is `sum 1 when: ..`"),
    _slip(r"@ (min|max) ", "mul", "a counter is a sum or a product; declare a `quantity` for others"),
    # Conditions.
    _slip(
        r"if @", "(", "write `condition => condition`; in a quantity, `condition ? value : value`", alone=True
    ),
    _slip(
        r"(exists|any) @", "(", "what holds of one object at least is a counter: `count() >= 1`", alone=True
    ),
    _slip(r"product @", "(", "write `prod`", alone=True),
    _slip(r"count @", "(", "write `sum $x in SET: (condition ? 1 : 0)`", alone=True),
    _slip(
        r": (?P<name>\w+) @ \(",
        "=",
        "name what says who represents: `is_kept = {name}(..)`",
        alone=True,
    ),
    _slip(r"/ (?P<name>\w+) @ \(", "is", "the relation stands alone: `{name} is VALUE`", alone=True),
    _slip(r"(?P<name>[a-z_]\w*) @", "(", "say of which objects: `{name}($x)`, or `{name}()`", alone=True),
    _slip(r"is @ [0-9]", "VALUE_NAME", "write `==` for `is`: numbers are compared"),
    _slip(r"@ = [<>]", "<= >=", "write `<=` or `>=`"),
    _slip(r"@ (==|!=|<=?|>=?) ", "&&", "join two comparisons: `a <= b && b <= c`"),
    _slip(r"@ ,", "&& +", "join conditions by `&&`, or begin a new line"),
    _slip(r"@ /", "&& +", "division is rounded: `floor(a, b)` or `ceil(a, b)`, in a quantity"),
    _slip(r"\* @ \*", "NUMBER", "a power is a product: `a * a`, in a quantity"),
    # Quantities, triggers, orderings.
    _slip(r"(?P<word>sum|prod) @ forall", "VARIABLE", "remove `forall`"),
    _slip(r"(?P<word>sum|prod) @", "VARIABLE", "say over what: `{word} $x in SET: (..)`", alone=True),
    _slip(r"@ [-=]>", ": |", "write `:` behind the values of a branch", alone=True),
    _slip(r", @ \}", "else", "remove the `,` in front of it"),
    _slip(r"@ [0-9]", "else", "a `case` is of an enum; of integers: `size($x) == 1 ? a : b`"),
    _slip(r"@", "HOST forall", 'what is added stands first: `"$kernel.add(..)" when condition`', alone=True),
    _slip(r"@ when", "where :", 'what is added stands first: `"$kernel.add(..)" when condition`'),
    _slip(r"@ \|", "by ,", "write `,` between groups; a group of several values has an `alias`"),
    _slip(r"@ \|", "for ,", "write `,` between groups; a group of several values has an `alias`"),
    _slip(r"@ dynamic", "NAME end", "an ordering has items, or one `dynamic` rule and nothing else"),
    _slip(r"(?P<word>ordering|view) @ :", "NAME", "give it a name: `{word} default:`", alone=True),
    _slip(r"@ end", "NAME", "name at least one choice", alone=True),
)
"""The first row that fits says it."""

CHARACTERS = tuple(
    (re.compile(pattern), message, hint)
    for pattern, message, hint in (
        (r'"', "this string is not closed", 'close it with `"` on its line, or end the line with `\\`'),
        (r"'", "strings stand between double quotes", "write the expression in double quotes"),
        (r"\.\.\.", "`...` stands for text that is left out", "write it out"),
        (r"[0-9]*\.[0-9]", "numbers are integers", None),
        (r"\.", "unexpected `.`", "attributes are read in double quotes; what gives an object is a `map`"),
        (r"#", "unexpected `#`", "a comment begins with `//`"),
        (r"&", "unexpected `&`", "conjunction is `&&`"),
        (
            r"\[",
            "unexpected `[`",
            "arguments stand in `(..)`; a list is part of a host expression, in double quotes",
        ),
        (r";", "unexpected `;`", "branches are separated by `,`, conditions and declarations by new lines"),
        (r"%", "unexpected `%`", "remainders are computed in host expressions, in double quotes"),
        (
            r"[\u2018-\u201f]",
            "a typographic quotation mark",
            "write `\"` around host expressions, `'` in them",
        ),
        (r"[\u00a0\u2000-\u200b\u202f\u3000]", "a blank that is not a plain one", "write a plain blank"),
        (r"\u2264", "unexpected `≤`", "write `<=`"),
        (r"\u2265", "unexpected `≥`", "write `>=`"),
        (r"\u2260", "unexpected `≠`", "write `!=`"),
        (r"\$", "a variable without a name", "write `$name`; a digit cannot come first"),
        (r"[0-9]+\w", "a number with letters in it", "put a blank or a sign between them"),
        (r"/", "a stray `/`", "a comment begins with `//`"),
    )
)
"""What begins no token."""
