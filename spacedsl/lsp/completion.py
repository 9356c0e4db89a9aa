"""What can be typed next.

In: a workspace, a path and an offset. Out: proposals with what documents them. The words come from the
grammar, as the parser would accept them; the names from the last text that did parse.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lark import Token

from spacedsl.language import syntax
from spacedsl.language.host import AMBIENT
from spacedsl.language.host_runtime import BUILTINS
from spacedsl.language.sets import KEYS
from spacedsl.lsp.analysis import Analysis, Workspace
from spacedsl.lsp.attributes import attributes, kernels_beside
from spacedsl.lsp.context import OPENERS, Context, context
from spacedsl.lsp.hover import describe
from spacedsl.lsp.symbols import Index, Symbol, SymbolKind


class ProposalKind(enum.StrEnum):
    KEYWORD = "keyword"
    SET = "set"
    CHOICE = "choice"
    VALUE = "value"
    VARIABLE = "variable"
    ATTRIBUTE = "attribute"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class Proposal:
    kind: ProposalKind
    label: str
    inserted: str
    """What is typed for it."""
    detail: str = ""
    documentation: str = ""
    fits: bool = True
    """Whether it goes with what is in scope; others come behind."""


@dataclass(frozen=True, slots=True)
class Completion:
    start: int
    """The offset of the word that has been begun, in place of which a proposal is typed."""
    proposals: tuple[Proposal, ...]
    """Best first."""


def complete(workspace: Workspace, path: Path, offset: int) -> Completion:
    """What can be typed at an offset of an open file."""
    here = context(workspace.texts[path][:offset])
    if here.in_comment:
        return Completion(offset, ())
    analysis = workspace.meaning(path)
    index = analysis.index
    if here.string is not None:
        return Completion(offset - len(_begun(here.string)), tuple(_in_string(here, here.string, analysis)))
    documented = {id(s): describe(analysis, s) for s in (*index.sets.values(), *index.choices.values())}
    found = [*_names(here, index, documented), *_keywords(here)]
    return Completion(offset - len(here.begun), tuple(sorted(found, key=lambda p: not p.fits)))


def _begun(string: str) -> str:
    """The variable, attribute or function that a host expression ends in."""
    match = re.search(r"(?<=\.)\w*\Z|\$?\w*\Z", string)
    return match.group() if match is not None else ""


def _in_string(here: Context, string: str, analysis: Analysis) -> Iterator[Proposal]:
    attribute = re.search(r"\$(\w+)\.\w*\Z", string)
    if attribute is not None:
        of = dict(here.variables).get(attribute[1], "")
        kernels = kernels_beside(analysis.files)
        for name in attributes(analysis.index, attribute[1], of, kernels):
            yield Proposal(ProposalKind.ATTRIBUTE, name, name, f"of ${attribute[1]}")
        return
    if re.search(r"\.\w*\Z", string):
        return
    yield from _variables([*here.variables, *((name, "") for name in AMBIENT)])
    if not re.search(r"\$\w*\Z", string):
        for name in BUILTINS:
            yield Proposal(ProposalKind.FUNCTION, name, name)


def _variables(bound: Iterable[tuple[str, str]]) -> Iterator[Proposal]:
    for name, of in bound:
        yield Proposal(ProposalKind.VARIABLE, f"${name}", f"${name}", f"in {of}" if of else "")


def _keywords(here: Context) -> Iterator[Proposal]:
    for word in sorted(here.accepted - {"define"}):
        if word.islower() and word.isalpha() and (here.begins_line or word not in OPENERS):
            yield Proposal(ProposalKind.KEYWORD, word, word)


def _names(here: Context, index: Index, documented: dict[int, str]) -> Iterator[Proposal]:
    """Names that stand for something, of the kinds that may come next."""
    accepted = here.accepted or frozenset({"NAME", "VALUE_NAME", "SET_NAME", "VARIABLE", "HOST"})
    if {"VARIABLE", "NAME"} <= accepted:  # an argument; a variable alone is a new one
        yield from _variables(here.variables)
    if "SET_NAME" in accepted and here.before() not in ("set", "quotient"):
        for symbol in index.sets.values():
            yield _set(symbol, documented)
    elif "VALUE_NAME" in accepted:
        yield from _values(here, index)
    # Behind a complete condition, another one begins a line.
    if "NAME" in accepted and (here.begins_line or "||" not in accepted):
        yield from _choices(here, index, documented)


def _set(symbol: Symbol, documented: dict[int, str]) -> Proposal:
    params = _params(symbol)
    inserted = f"{symbol.name}({', '.join(params)})" if params else symbol.name
    return Proposal(ProposalKind.SET, symbol.name, symbol.name, inserted, documented[id(symbol)])


def _params(symbol: Symbol) -> list[str]:
    """A symbol's parameters as they are written in its declaration."""
    node = symbol.node
    bindings: Sequence[syntax.Binding] = ()
    if isinstance(node, syntax.Quotient):
        is_choice = symbol.kind is SymbolKind.CHOICE
        bindings = (*node.params, node.item) if is_choice else node.params
    elif isinstance(node, syntax.Set | syntax.Map | syntax.Quantity | _CHOICES):
        bindings = node.params
    return [f"${b.variable.name} in {' '.join(b.set.span.text.split())}" for b in bindings]


_CHOICES = syntax.EnumChoice | syntax.OrderedChoice | syntax.IntegerChoice | syntax.CounterChoice


# Choices


class _Role(enum.Enum):
    """What a name in snake_case stands for."""

    NEW = "what is being declared"
    KEY = "a key of a set"
    LISTED = "a choice of an ordering or a view"
    RELATION = "the equivalence of a quotient"
    AMOUNT = "what a counter adds up"
    MAP = "a map, in an argument"
    VALUE = "what has a value, in a condition"


def _role(here: Context) -> _Role:
    opener = str(here.tokens[0]) if here.tokens else ""
    before = here.before()
    if before == "/":
        return _Role.RELATION
    if before in ("sum", "mul") and opener in ("choice", "define"):
        return _Role.AMOUNT
    if "HOST" in here.accepted or not here.accepted:
        return _Role.VALUE
    if "VARIABLE" in here.accepted:
        return _Role.MAP
    if opener in ("ordering", "view") and before not in ("ordering", "view", "dynamic"):
        return _Role.LISTED
    return _Role.KEY if opener in ("set", "quotient") and "end" in here.accepted else _Role.NEW


def _choices(here: Context, index: Index, documented: dict[int, str]) -> Iterator[Proposal]:
    """Choices, counters, quantities, maps and keys, as far as they may stand here."""
    role = _role(here)
    if role is _Role.KEY:
        for key in KEYS:
            yield Proposal(ProposalKind.KEYWORD, key, key, role.value)
    for symbol in index.choices.values():
        if _may_stand(symbol, role):
            is_bare = role in (_Role.LISTED, _Role.RELATION)
            arguments = "" if is_bare else _arguments(symbol, here, index)
            yield Proposal(
                ProposalKind.CHOICE,
                symbol.name,
                symbol.name if is_bare else f"{symbol.name}({arguments or ''})",
                f"{symbol.kind} on ({', '.join(_params(symbol))})",
                documented[id(symbol)],
                fits=arguments is not None,
            )


def _may_stand(symbol: Symbol, role: _Role) -> bool:
    match role:
        case _Role.NEW | _Role.KEY:
            return False
        case _Role.MAP:
            return symbol.kind is SymbolKind.MAP
        case _Role.AMOUNT:
            return isinstance(symbol.node, syntax.IntegerChoice | syntax.CounterChoice)
        case _Role.RELATION:
            return isinstance(symbol.node, syntax.EnumChoice) and len(symbol.params) == 2
        case _Role.LISTED:
            return isinstance(symbol.node, syntax.EnumChoice | syntax.OrderedChoice | syntax.IntegerChoice)
    return symbol.kind is not SymbolKind.MAP


def _arguments(symbol: Symbol, here: Context, index: Index) -> str | None:
    """For each parameter, a variable in scope that lies in its set, each taken once; None where one lacks."""
    left = list(here.variables)
    chosen: list[str] = []
    for param in symbol.params:
        fitting = next((v for v in left if _includes(index, v[1], param)), None)
        if fitting is None:
            return None
        left.remove(fitting)
        chosen.append(f"${fitting[0]}")
    return ", ".join(chosen)


def _includes(index: Index, inner: str, outer: str) -> bool:
    """Whether one set lies in another by what is declared, whatever the arguments are."""
    stack, seen = [inner], set()
    while stack:
        name = stack.pop()
        if name == outer:
            return True
        if name in seen or name not in index.sets:
            continue
        seen.add(name)
        node = index.sets[name].node
        if isinstance(node, syntax.Set):
            stack += [use.name.text for use in node.supersets]
        elif isinstance(node, syntax.Quotient):
            stack.append(node.item.set.name.text)
    return False


# Values


def _values(here: Context, index: Index) -> Iterator[Proposal]:
    choice = _choice_of_values(here)
    if choice is not None and choice in index.values:
        for name, symbol in index.values[choice].items():
            yield Proposal(ProposalKind.VALUE, name, name, f"of {choice}", symbol.doc)


def _choice_of_values(here: Context) -> str | None:
    """The choice whose values may come next; None where a value is being declared."""
    tokens = list(here.tokens)
    # `V | W`, and the groups `V, W`, go on with values of the same choice.
    while tokens and (tokens[-1] in ("|", ",") or tokens[-1].type == "VALUE_NAME"):
        tokens.pop()
    if not tokens:
        return None
    if tokens[-1] in ("->", "=") or tokens[-2:] == ["antisymmetric", ":"]:
        return next((str(t) for t in tokens if t.type == "NAME"), None)  # the enum's own values
    if tokens[-1] == "not":
        tokens.pop()
    if tokens and tokens[-1] in ("is", "by", "==", "!=", "<", "<=", ">", ">="):
        return _subject(tokens[:-1])
    braces = [i for i, token in enumerate(tokens) if token == "{"]
    return _subject(tokens[: braces[-1]]) if braces and "}" not in tokens[braces[-1] :] else None


def _subject(tokens: list[Token]) -> str | None:
    """The name of `choice(..)`, `choice` or `choice(..) for ..` at the end of the tokens."""
    if "for" in tokens and tokens[0] == "ordering":
        tokens = tokens[: max(i for i, token in enumerate(tokens) if token == "for")]
    if tokens and tokens[-1] == ")":
        depth = 0
        while tokens:
            token = tokens.pop()
            depth += (token == ")") - (token == "(")
            if depth == 0:
                break
    return str(tokens[-1]) if tokens and tokens[-1].type == "NAME" else None
