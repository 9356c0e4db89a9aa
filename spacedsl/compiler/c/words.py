"""Boolean functions of bit rows, as C expressions on words.

In: which value of which row. Out: text, after the simplifications that constants allow. A domain is never
empty, so the disjunction of all values of a row is true.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """For which objects a domain still has the value."""

    number: int
    value: int


@dataclass(frozen=True, slots=True)
class Not:
    word: Word


@dataclass(frozen=True, slots=True)
class And:
    words: frozenset[Word]


@dataclass(frozen=True, slots=True)
class Or:
    words: frozenset[Word]


Word = bool | Row | Not | And | Or


def both(*words: Word) -> Word:
    """Where all of them are; without any, everywhere."""
    parts = {w for word in words for w in (word.words if isinstance(word, And) else (word,))} - {True}
    if False in parts or any(negation(part) in parts for part in parts):
        return False
    return _single(parts, True) if len(parts) < 2 else And(frozenset(parts))


def either(words: Iterable[Word]) -> Word:
    """Where one of them is; without any, nowhere."""
    parts = {w for word in words for w in (word.words if isinstance(word, Or) else (word,))} - {False}
    if True in parts or any(negation(part) in parts for part in parts):
        return True
    return _single(parts, False) if len(parts) < 2 else Or(frozenset(parts))


def negation(word: Word) -> Word:
    if isinstance(word, bool):
        return not word
    return word.word if isinstance(word, Not) else Not(word)


def values(number: int, mask: int, full: int) -> Word:
    """For which objects the domain still has one of the values."""
    if mask == full:
        return True
    return either(Row(number, value) for value in range(mask.bit_length()) if mask >> value & 1)


def text(word: Word) -> str:
    """As an expression of C; equal words give equal text."""
    match word:
        case bool():
            return "~(Word)0" if word else "(Word)0"
        case Row(number, value):
            return f"ROW({number}, {value})"
        case Not(inner):
            return f"~{_operand(inner)}"
        case And(words):
            return " & ".join(sorted(map(_operand, words)))
        case Or(words):
            return " | ".join(sorted(map(_operand, words)))


def _operand(word: Word) -> str:
    return f"({text(word)})" if isinstance(word, And | Or) else text(word)


def _single(parts: set[Word], empty: bool) -> Word:
    return parts.pop() if parts else empty
