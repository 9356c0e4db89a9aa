"""The canonical layout of a `.space` file.

In: a text that parses. Out: the same declarations and comments, laid out anew: lines of at most `WIDTH`
characters where they can be broken, an indent of two, at most one empty line in a row. What the text means,
and in which order it says so, is not touched. The grammar's tree with all of its tokens becomes a document
(`pretty.py`), one layout for each rule; where a body was written on one line, it stays there if it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lark import Token, Tree

from spacedsl.diagnostics import LINE_END, Source
from spacedsl.language.loader import MOST_CHARACTERS, too_large
from spacedsl.language.parser import grammar, parse
from spacedsl.language.pretty import Align, Comment, Document, Group, Indent, Line, Word, render
from spacedsl.language.trivia import words

WIDTH = 100
"""Columns that a line may take, unless a comment, a string or a name is longer."""

Node = Token | Tree[Token]


class UnfaithfulLayoutError(AssertionError):
    """The layout does not say what the text said: a bug of this module, never of the text."""


def format_source(source: Source) -> str:
    """The text in its canonical layout; raises `DiagnosticError` where it does not parse.

    Lines end as the first one of the text does.
    """
    if len(source.text) > MOST_CHARACTERS:
        raise too_large(source)
    parse(source)  # everything that the grammar alone does not find
    first = LINE_END.search(source.text)
    text = LINE_END.sub("\n", source.text)
    layout = _Layout(text)
    formatted = render(layout.file(), WIDTH)
    if _significant(formatted) != _significant(text):
        raise UnfaithfulLayoutError(f"the layout of {source.name} differs from it in more than blanks")
    parse(Source(source.name, formatted))
    return formatted if first is None else formatted.replace("\n", first.group())


def _significant(text: str) -> tuple[list[str], list[str]]:
    """The tokens and the comments, each as it is written canonically."""
    tokens = list(grammar().lex(text))
    written, end = words(text, tokens)
    comments = [c.text for word in (*written, end) for c in (*word.before, *word.after)]
    canonical = [_canonical(word.text) for word in written]
    return [
        word
        for before, word in zip(["", *canonical], canonical, strict=False)
        if (before, word) != ("symmetric", ":")
    ], comments


def _canonical(token: str) -> str:
    if token == "define":
        return "choice"
    if token.startswith("///"):
        text = token[3:].rstrip()
        return f"/// {text}" if text[:1].strip() else f"///{text}"
    return token


class _Layout:
    """The words of one text, and the document of each node of its tree."""

    def __init__(self, text: str) -> None:
        self.text = text
        parser = grammar(keep_all_tokens=True)
        tokens = list(parser.lex(text))
        written, self.end = words(text, tokens)
        self.words = {
            token.start_pos: Word(_canonical(word.text), word.before, word.after, word.follows_blank)
            for token, word in zip(tokens, written, strict=True)
        }
        self.tree = parser.parse(text)

    def file(self) -> Document:
        return _stacked([*map(self.document, _parts(self.tree)), *_loose(self.end)])

    def document(self, node: Node) -> Document:
        if isinstance(node, Token):
            return self.words[node.start_pos]
        return LAYOUTS.get(node.data, phrase)(self, _parts(node))

    def documents(self, nodes: Iterable[Node]) -> list[Document]:
        return [self.document(node) for node in nodes]

    def on_one_line(self, start: Node, end: Node) -> bool:
        """Whether no line ends between two nodes."""
        return "\n" not in self.text[_end(start) : _start(end)]


def _parts(tree: Tree[Token]) -> list[Node]:
    """The children, without what is absent."""
    return [child for child in tree.children if child is not None]


def _start(node: Node) -> int:
    start = node.start_pos if isinstance(node, Token) else node.meta.start_pos
    assert start is not None
    return start


def _end(node: Node) -> int:
    end = node.end_pos if isinstance(node, Token) else node.meta.end_pos
    assert end is not None
    return end


def _is(node: Node, *rules: str) -> bool:
    return isinstance(node, Tree) and node.data in rules


def _stacked(documents: Iterable[Document]) -> Document:
    """One under the other; an empty line between two of them is kept."""
    parts: list[Document] = []
    for document in documents:
        if parts:
            parts.append(Line(keeps_blank=True))
        parts.append(document)
    return tuple(parts)


def _loose(end: Word) -> list[Document]:
    """The comments in front of what closes a body, each as a line of the body."""
    return [_standing(comment) for comment in end.before]


def _standing(comment: Comment) -> Word:
    return Word(comment.text, follows_blank=comment.follows_blank)


# Layouts of what stands on one line as long as it fits


def phrase(layout: _Layout, parts: Sequence[Node]) -> Document:
    """Words with a blank between them, but for punctuation and what is in parentheses behind a name."""
    documents: list[Document] = []
    for i, part in enumerate(parts):
        is_close = part in (",", ":", ")") or _is(part, "parameters", "arguments")
        if i and not is_close and parts[i - 1] not in ("(", "!", "-"):
            documents.append(" ")
        documents.append(layout.document(part))
    return tuple(documents)


def _broken_before(*operators: str) -> Callable[[_Layout, Sequence[Node]], Document]:
    """A phrase whose lines break in front of the operators (signs, or rules of signs)."""

    def layout_of(layout: _Layout, parts: Sequence[Node]) -> Document:
        rest: list[Document] = []
        for part in parts[1:]:
            is_operator = part in operators or _is(part, *operators)
            rest += [Line() if is_operator else " ", layout.document(part)]
        return Group((layout.document(parts[0]), Indent(tuple(rest))))

    return layout_of


def listing(layout: _Layout, parts: Sequence[Node]) -> Document:
    """What is in brackets, with commas between: on one line, or each on its own."""
    opening, *items, closing = parts
    blank = Line(" " if opening == "{" else "")
    inner: list[Document] = []
    for item in items:
        inner += [layout.document(item), Line()] if item == "," else [layout.document(item)]
    if not items:
        return (layout.document(opening), layout.document(closing))
    return Group((layout.document(opening), Indent((blank, *inner)), blank, layout.document(closing)))


def application(layout: _Layout, parts: Sequence[Node]) -> Document:
    return (layout.document(parts[0]), listing(layout, parts[1:]))


def case(layout: _Layout, parts: Sequence[Node]) -> Document:
    return (phrase(layout, parts[:2]), " ", listing(layout, parts[2:]))


def aggregate(layout: _Layout, parts: Sequence[Node]) -> Document:
    return Group((phrase(layout, parts[:-1]), Indent((Line(), layout.document(parts[-1])))))


def quantity(layout: _Layout, parts: Sequence[Node]) -> Document:
    doc, parts = _documented(layout, parts)
    return (doc, Group((phrase(layout, parts[:-1]), Indent((Line(), layout.document(parts[-1]))))))


def comment(layout: _Layout, parts: Sequence[Node]) -> Document:
    return tuple((line, Line(is_hard=True)) for line in layout.documents(parts))


def _documented(layout: _Layout, parts: Sequence[Node]) -> tuple[Document, Sequence[Node]]:
    """What documents a declaration, and the declaration."""
    return (layout.document(parts[0]), parts[1:]) if _is(parts[0], "doc") else ((), parts)


def documented_phrase(layout: _Layout, parts: Sequence[Node]) -> Document:
    doc, parts = _documented(layout, parts)
    return (doc, Group(phrase(layout, parts)))


def symmetric(layout: _Layout, parts: Sequence[Node]) -> Document:
    """Without its colon, which says nothing, unless a comment stands between the two."""
    word, *colon = (layout.words[_start(part)] for part in parts)
    if not colon or word.after or colon[0].before:
        return (word, *colon)
    return Word(word.text, word.before, colon[0].after, word.follows_blank)


# Layouts of what takes several lines


def block(layout: _Layout, parts: Sequence[Node]) -> Document:
    """A head that ends in a colon, what follows it, and `end` where there is one."""
    doc, parts = _documented(layout, parts)
    colon = next(i for i, part in enumerate(parts) if part == ":")
    head, body = parts[: colon + 1], parts[colon + 1 :]
    closing: list[Document] = []
    is_short = not body or layout.on_one_line(parts[colon], parts[-1])
    items = body
    comments: list[Document] = []
    if body and body[-1] == "end":
        end = layout.words[_start(body[-1])]
        items = body[:-1]
        comments = _loose(end)
        closing = [Line(), Word(end.text, (), end.after)]
    documents = [*_items(layout, items), *comments]
    inner = Indent((Line(), _stacked(documents))) if documents else ()
    laid_out = (_head(layout, head), inner, *closing)
    return (doc, Group(laid_out) if is_short else laid_out)


def _head(layout: _Layout, parts: Sequence[Node]) -> Document:
    """A phrase that may break in front of its supersets."""
    at = next((i for i, part in enumerate(parts) if _is(part, "supersets")), None)
    if at is None:
        return phrase(layout, parts)
    rest = phrase(layout, parts[at:])
    return Group((phrase(layout, parts[:at]), Indent(Indent((Line(), rest)))))


def _items(layout: _Layout, parts: Sequence[Node]) -> list[Document]:
    """What a body consists of; tokens and what continues them belong together."""
    items: list[Document] = []
    if any(_is(part, "equivalence") for part in parts):
        at = next(i for i, part in enumerate(parts) if _is(part, "equivalence"))
        items.append(_representative(layout, parts[: at + 1]))
        parts = parts[at + 1 :]
    elif any(_is(part, "when") for part in parts):
        return _counted(layout, parts)
    for part in parts:
        if _is(part, "listed_for"):
            items[-1] = (items[-1], " ", layout.document(part))
        else:
            items.append(layout.document(part))
    return items


def _representative(layout: _Layout, parts: Sequence[Node]) -> Document:
    name, equals, condition, slash, equivalence = layout.documents(parts)
    return Group((name, " ", equals, " ", condition, Indent((Line(), slash, " ", equivalence))))


def _counted(layout: _Layout, parts: Sequence[Node]) -> list[Document]:
    """The body of a counter: `base`, then what is counted under its quantifiers."""
    items: list[Document] = []
    if _is(parts[0], "base"):
        items.append(layout.document(parts[0]))
        parts = parts[1:]
    foralls = [part for part in parts if _is(part, "forall")]
    operation, amount, when = parts[len(foralls) :]
    counted = (*layout.documents([operation]), " ", layout.document(amount), " ", layout.document(when))
    if not foralls:
        return [*items, counted]
    prefix = Group(_stacked_foralls(layout, foralls))
    return [*items, _under(prefix, [counted], is_short=layout.on_one_line(foralls[-1], operation))]


def when(layout: _Layout, parts: Sequence[Node]) -> Document:
    head = phrase(layout, parts[:2])
    if len(parts) == 2:
        return head
    conditions = layout.documents(parts[2:])
    return _under(head, conditions, is_short=layout.on_one_line(parts[1], parts[2]))


def requirement(layout: _Layout, parts: Sequence[Node]) -> Document:
    """A keyword, quantifiers, and conditions that each begin a line where there are several."""
    doc, parts = _documented(layout, parts)
    foralls = [part for part in parts if _is(part, "forall")]
    conditions = parts[1 + len(foralls) :]
    head = layout.document(parts[0])
    is_short = True
    if foralls:
        head = Group((head, " ", Align(_stacked_foralls(layout, foralls))))
        is_short = layout.on_one_line(foralls[-1], conditions[0])
    return (doc, _under(head, layout.documents(conditions), is_short=is_short))


def trigger(layout: _Layout, parts: Sequence[Node]) -> Document:
    doc, parts = _documented(layout, parts)
    *foralls, callback, keyword, condition = parts[1:]
    host, word, test = layout.documents((callback, keyword, condition))
    action = Group((host, Indent((Line(), word, " ", test))))
    head = layout.document(parts[0])
    if not foralls:
        return (doc, head, " ", action)
    head = Group((head, " ", Align(_stacked_foralls(layout, foralls))))
    return (doc, _under(head, [action], is_short=layout.on_one_line(foralls[-1], callback)))


def _stacked_foralls(layout: _Layout, foralls: Sequence[Node]) -> Document:
    first, *others = layout.documents(foralls)
    return (first, *((Line(), other) for other in others))


def _under(head: Document, documents: Sequence[Document], *, is_short: bool) -> Document:
    """The documents indented below the head; a single one behind it where it was written there and fits."""
    if len(documents) == 1 and is_short:
        return Group((head, Indent((Line(), documents[0]))))
    lines = [(Line(is_hard=True, keeps_blank=i > 0), d) for i, d in enumerate(documents)]
    return (head, Indent(tuple(lines)))


LAYOUTS: dict[str, Callable[[_Layout, Sequence[Node]], Document]] = {
    "doc": comment,
    "set": block,
    "enum_choice": block,
    "ordered_choice": block,
    "integer_choice": block,
    "counter_choice": block,
    "quotient": block,
    "ordering": block,
    "object_major": block,
    "view": block,
    "value": block,
    "alias": block,
    "antisymmetric": block,
    "symmetric": symmetric,
    "when": when,
    "require": requirement,
    "requires": requirement,
    "trigger": trigger,
    "quantity": quantity,
    "map": documented_phrase,
    "parameters": listing,
    "arguments": listing,
    "application": application,
    "case": case,
    "aggregate": aggregate,
    "group": listing,
    "conditional": _broken_before("?", ":"),
    "implies": _broken_before("=>"),
    "either": _broken_before("||"),
    "both": _broken_before("&&"),
    "compared": _broken_before("comparator"),
    "total": _broken_before("sign"),
    "product": _broken_before("*"),
    "values": _broken_before("|"),
    "chain": _broken_before("<"),
}
"""Every other rule is a `phrase`."""
