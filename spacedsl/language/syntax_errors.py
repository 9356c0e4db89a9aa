"""What a person reads when the text of a `.space` file does not parse.

In: the grammar and a text that it does not accept. Out: one `Diagnostic`: what was expected, in the words of
the language, and the edit that repairs it. An edit is offered when the parser, having made it, reads on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from spacedsl.diagnostics import Diagnostic, Source, Span
from spacedsl.language.slips import CHARACTERS, INSERTED, PYTHON, REMOVED, REPLACED, SLIPS, Words

_READ_ON = 60
"""Tokens that the parser must accept after an edit, or all that are left."""

_REPEATED = 2
"""Tokens that the parser must accept after a colon that is put in, where the same mistake follows."""

_DECLARING = (("choice",), ("require",))

_REST = re.compile(r"\$?\w+(?:\.\w+|\([^()\r\n]*\)|\.\.\w*|\s*[=!<>]=\s*\$?\w+)*|\S+")
"""What a person would have put in quotes."""

_OPENERS = frozenset({"set", "choice", "define", "quotient", "ordering", "view"})

_CLASSES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"set", "choice", "define", "require", "quotient", "trigger", "ordering"}), "a declaration"),
    (frozenset({"HOST", "NAME", "(", "!", "true", "false"}), "a condition"),
    (frozenset({"HOST", "NAME", "(", "NUMBER", "min", "max"}), "a number, a choice or a quoted expression"),
    (frozenset({"&&", "||"}), "an operator"),
    (frozenset({"SET_NAME", "VALUE_NAME"}), "the name of a set"),
)
"""Words that are expected together, and what they are called together."""

_CLASS_MEMBERS = {
    "a declaration": frozenset({"include", "map", "quantity", "view", "///"}),
    "a condition": frozenset(
        {"NUMBER", "VALUE_NAME", "-", "min", "max", "sum", "prod", "floor", "ceil", "case"}
    ),
    "a number, a choice or a quoted expression": frozenset(
        {"VALUE_NAME", "-", "sum", "prod", "floor", "ceil", "case"}
    ),
    "an operator": frozenset({"=>", "==", "!=", "<", "<=", ">", ">=", "is", "+", "-", "*", "?"}),
}
"""What else a class covers where it is expected."""

_NAMES = {
    "NAME": "a name in snake_case",
    "VALUE_NAME": "the name of a value",
    "SET_NAME": "the name of a set",
    "VARIABLE": "a variable such as `$x`",
    "NUMBER": "a number",
    "HOST": "a quoted expression",
    "$END": "the end of the file",
}


def explain(grammar: Lark, source: Source) -> Diagnostic:
    """The first mistake in a text that the grammar does not accept."""
    tokens, bad_character = _tokens(grammar, source)
    parser = grammar.parse_interactive("")
    for position, token in enumerate(tokens):
        try:
            parser.feed_token(token)
        except UnexpectedToken:
            return _Mistake(
                grammar, source, tokens, position, *_before(grammar, tokens, position)
            ).diagnostic()
    return _character(source, bad_character or 0)


def _before(grammar: Lark, tokens: list[Token], position: int) -> tuple[InteractiveParser, InteractiveParser]:
    """The parser in front of a token, and one token earlier; one that has failed is in neither state."""
    parser = grammar.parse_interactive("")
    earlier = parser
    for i, token in enumerate(tokens[:position]):
        if i == position - 1:
            earlier = _copied(parser)
        parser.feed_token(token)
    return parser, earlier


def _copied(parser: InteractiveParser) -> InteractiveParser:
    """A parser that reads on by itself. What it builds is never looked at, so trees may be shared."""
    copied: InteractiveParser = parser.copy(deepcopy_values=False)  # type: ignore[no-untyped-call]
    return copied


def _accepted(parser: InteractiveParser) -> set[str]:
    """The terminals that may come next."""
    names: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return names


def _tokens(grammar: Lark, source: Source) -> tuple[list[Token], int | None]:
    """The tokens up to the first character that begins none, and the place of that character."""
    tokens: list[Token] = []
    try:
        tokens.extend(grammar.lex(source.text))
    except UnexpectedCharacters as error:
        # `extend` keeps what the lexer gave before it failed.
        return tokens, error.pos_in_stream
    end = len(source.text.rstrip())
    return [*tokens, Token("$END", "", start_pos=end, end_pos=end)], None


def _character(source: Source, offset: int) -> Diagnostic:
    rest = source.text[offset:]
    for pattern, message, hint in CHARACTERS:
        match = pattern.match(rest)
        if match:
            return Diagnostic("SP003", message, Span(source, offset, offset + match.end()), hint)
    character = rest[:1]
    shown = f"`{character}`" if character.isprintable() else f"U+{ord(character):04X}"
    return Diagnostic("SP003", f"unexpected character {shown}", Span(source, offset, offset + 1))


@dataclass(frozen=True, slots=True)
class _Mistake:
    """The token at `position` cannot follow those before it, which `parser` has read."""

    grammar: Lark
    source: Source
    tokens: list[Token]
    position: int
    parser: InteractiveParser
    earlier: InteractiveParser
    """The parser one token before that."""

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def diagnostic(self) -> Diagnostic:
        comment = self._open_comment()
        if comment is not None:
            span = Span(self.source, comment, comment + 2)
            return Diagnostic("SP003", "this comment is not closed", span, "close it with `*/`")
        if self.token.type != "DOC" and self.position and self.tokens[self.position - 1].type == "DOC":
            return self._stray_documentation()
        accepted = {self._text(name) for name in _accepted(self.parser)}
        message = f"expected {_listed(_words(accepted))}, found {self._found()}"
        return (
            self._replaced(message)
            or self._slip(message, accepted)
            or self._inserted()
            or self._removed(message)
            or self._plain(message, accepted)
        )

    def _stray_documentation(self) -> Diagnostic:
        message = f"a `///` comment documents a declaration or a value, and {self._found()} is none"
        span = Span(self.source, *_place(self.tokens[self.position - 1]))
        return Diagnostic("SP002", message, span, "write `//`")

    def _text(self, terminal: str) -> str:
        """A keyword or sign as it is written; the name of the terminal where it stands for many words."""
        if terminal in _NAMES:
            return terminal
        if terminal == "DOC":
            return "///"
        return str(self.grammar.get_terminal(terminal).pattern.value)

    def _found(self) -> str:
        if self.token.type == "$END":
            return "the end of the file"
        if self.token.type == "DOC":
            return "a `///` comment"
        return f"`{self.token}`" if len(self.token) <= 40 else "a long string"

    def _here(self) -> Span:
        start, end = _place(self.token)
        return Span(self.source, start, max(end, start + 1))

    def _open_comment(self) -> int | None:
        start = _place(self.token)[0]
        for offset in (start, start - 1):
            if self.source.text.startswith("/*", max(offset, 0)):
                return max(offset, 0)
        return None

    # Edits

    def _reads_on(self, edited: Iterable[Token], start: InteractiveParser | None = None) -> bool:
        parser = _copied(start or self.parser)
        try:
            for token in edited:
                parser.feed_token(token)
        except UnexpectedToken:
            return False
        return True

    def _named(self, word: str) -> Iterator[Token]:
        """What follows, were this word a name: here, and wherever it is used like one."""
        following = self._following(self.position)
        for token, after in zip(following, [*following[1:], None], strict=True):
            is_name = token is self.token or (str(token) == word and str(after) == "(")
            yield Token("NAME", word) if is_name else token

    def _following(self, start: int) -> list[Token]:
        return self.tokens[start : start + _READ_ON]

    def _terminal(self, text: str) -> Token:
        """A word of the language; where this part of it lacks the word, a token that nothing accepts."""
        names = [t.name for t in self.grammar.terminals if t.pattern.value == text and t.name not in _NAMES]
        return Token(names[0] if names else "UNKNOWN", text)

    def _replaced(self, message: str) -> Diagnostic | None:
        previous = self.tokens[self.position - 1] if self.position else None
        if previous is not None and str(previous) in PYTHON:
            sign = PYTHON[str(previous)]
            if self._reads_on([self._terminal(sign), *self._following(self.position)], self.earlier):
                span = Span(self.source, *_place(previous))
                return Diagnostic(
                    "SP002", f"`{previous}` is Python", span, f"write `{sign}` for `{previous}`"
                )
        for found, words in REPLACED:
            if found == str(self.token):
                edited = [*map(self._terminal, words), *self._following(self.position + 1)]
                if self._reads_on(edited):
                    return Diagnostic(
                        "SP002", message, self._here(), f"write `{_spelled(words)}` for `{self.token}`"
                    )
        return None

    def _slip(self, message: str, accepted: set[str]) -> Diagnostic | None:
        """What a person means who writes this here."""
        shown = ['""' if t.type == "HOST" else str(t) for t in self.tokens]
        before, here = shown[max(self.position - 2, 0) : self.position], shown[self.position :][:2]
        around = " ".join([*before, "@", *here])
        for slip in SLIPS:
            match = slip.around.search(around)
            if match and (slip.expected == accepted if slip.alone else slip.expected <= accepted):
                start = _place(self.token)[0]
                rest = _REST.match(self.source.text, start)
                hint = slip.hint.format(**match.groupdict(), rest=rest.group() if rest else "")
                return Diagnostic("SP002", message, self._here(), hint)
        return None

    def _inserted(self) -> Diagnostic | None:
        following = self._following(self.position)
        for words in INSERTED:
            if self._reads_on([*map(self._terminal, words), *following]):
                break
        else:
            # Whoever leaves out one colon leaves out the next one, too.
            words = (":",)
            if len(following) < _REPEATED or not self._reads_on(
                [self._terminal(":"), *following[:_REPEATED]]
            ):
                return None
        message = f"expected `{_spelled(words)}`, found {self._found()}"
        if words == ("end",):
            return Diagnostic(
                "SP002", message, self._here(), "put `end` in front of it", related=self._opener()
            )
        if words in _DECLARING:
            return Diagnostic("SP002", message, self._here(), f"put `{words[0]}` in front of it")
        return Diagnostic("SP002", message, self._gap(), f"put `{_spelled(words)}` here")

    def _gap(self) -> Span:
        """The token; where it begins a line, the end of what stands in front of it."""
        previous = self.tokens[self.position - 1] if self.position else None
        if previous is None:
            return self._here()
        end = _place(previous)[1]
        return (
            Span(self.source, end, end)
            if end < self.source.line_start(_place(self.token)[0])
            else self._here()
        )

    def _opener(self) -> tuple[tuple[Span, str], ...]:
        for token in reversed(self.tokens[: self.position]):
            if token in _OPENERS:
                return ((Span(self.source, *_place(token)), f"this `{token}` has no `end`"),)
        return ()

    def _removed(self, message: str) -> Diagnostic | None:
        removable = str(self.token) in REMOVED or self.token.type == "DOC"
        if not removable or not self._reads_on(self._following(self.position + 1)):
            return None
        hint = f"remove `{self.token}`"
        if self.token.type == "DOC":
            hint = "a `///` comment stands in front of a declaration or a value; write `//`"
        return Diagnostic("SP002", message, self._here(), hint)

    def _plain(self, message: str, accepted: set[str]) -> Diagnostic:
        word = str(self.token)
        hint = None
        if (
            self.token.type in ("SET_NAME", "VALUE_NAME")
            and "NAME" in accepted
            and "VALUE_NAME" not in accepted
        ):
            hint = f"choices, keys and orderings are written in snake_case: `{_snake_case(word)}`"
        elif (
            self.token.type in ("NAME", "SET_NAME")
            and "VALUE_NAME" in accepted
            and "SET_NAME" not in accepted
        ):
            hint = f"values are written in UPPER_CASE: `{_snake_case(word).upper()}`"
        elif self.token.type == "NAME" and "SET_NAME" in accepted:
            hint = f"sets are written in CamelCase: `{''.join(w.capitalize() for w in word.split('_'))}`"
        elif self.token.type == "NAME" and "VARIABLE" in accepted:
            hint = f"variables begin with `$`: `${word}`"
        elif "NAME" in accepted and word.isidentifier() and self._reads_on(self._named(word)):
            hint = f"`{word}` is a word of the language: choose another name"
        return Diagnostic("SP002", message, self._here(), hint)


def _place(token: Token) -> tuple[int, int]:
    assert token.start_pos is not None and token.end_pos is not None
    return token.start_pos, token.end_pos


def _words(accepted: set[str]) -> list[str]:
    """What is expected, with words that belong together under one name."""
    left = set(accepted)
    words = []
    for members, name in _CLASSES:
        if members <= left:
            left -= members | _CLASS_MEMBERS.get(name, frozenset())
            words.append(name)
    if left != {"///"}:
        left.discard("///")
    return [*words, *sorted(_NAMES.get(w, f"`{w}`") for w in left)]


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _spelled(words: Words) -> str:
    return " ".join(words).replace(" :", ":")


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
