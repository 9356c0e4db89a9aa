"""A small reader of TextMate grammars: the scopes of each character, line by line, as editors find them.

It knows `match`, `begin`, `end`, `name`, `patterns` and the repository; no captures, no scopes of contents.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Rule = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Open:
    """A rule that has begun and not ended; the file itself has neither a name nor an end."""

    name: str
    end: re.Pattern[str] | None
    patterns: list[Rule]


class TextMate:
    def __init__(self, path: Path) -> None:
        grammar = json.loads(path.read_text(encoding="utf-8"))
        self.repository: dict[str, Rule] = grammar["repository"]
        self.patterns: list[Rule] = grammar["patterns"]

    def scopes(self, text: str) -> list[str]:
        """The innermost name at each character; empty where there is none."""
        found: list[str] = []
        stack = [_Open("", None, self._flat(self.patterns))]
        for line in text.splitlines(keepends=True):
            found += self._line(line, stack)
        return found

    def _flat(self, patterns: list[Rule]) -> list[Rule]:
        """The rules themselves, where patterns include or group them."""
        flat: list[Rule] = []
        for rule in patterns:
            if "include" in rule:
                flat += self._flat([self.repository[rule["include"].removeprefix("#")]])
            elif "match" in rule or "begin" in rule:
                flat.append(rule)
            else:
                flat += self._flat(rule["patterns"])
        return flat

    def _line(self, line: str, stack: list[_Open]) -> list[str]:
        scopes = [""] * len(line)
        position = 0
        while True:
            top = stack[-1]
            match, rule = self._next(top, line, position)
            reached = match.start() if match is not None else len(line)
            scopes[position:reached] = [top.name] * (reached - position)
            if match is None:
                return scopes
            name = rule["name"] if rule is not None else top.name
            scopes[match.start() : match.end()] = [name] * (match.end() - match.start())
            is_stuck = match.end() == position and rule is not None
            position = match.end() + is_stuck
            if rule is None:
                stack.pop()
            elif "begin" in rule:
                inner = self._flat(rule.get("patterns", []))
                stack.append(_Open(name, re.compile(rule["end"], re.MULTILINE), inner))

    @staticmethod
    def _next(top: _Open, line: str, position: int) -> tuple[re.Match[str] | None, Rule | None]:
        """The first match on the line; of several at one place, the end, then the first rule."""
        best = top.end.search(line, position) if top.end is not None else None
        chosen: Rule | None = None
        for rule in top.patterns:
            match = re.compile(rule.get("match") or rule["begin"], re.MULTILINE).search(line, position)
            if match is not None and (best is None or match.start() < best.start()):
                best, chosen = match, rule
        return best, chosen
