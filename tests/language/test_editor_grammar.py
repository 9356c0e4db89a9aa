"""The colours of editors follow the grammar: each word and sign of `space.lark` has the scope of its kind."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lark.lexer import TerminalDef

from spacedsl.language.parser import grammar
from tests.language import listings
from tests.language.sources import PREAMBLE
from tests.language.test_formatter import FORMATTED, LINALG, REFERENCE
from tests.language.textmate import TextMate

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "grammars/editors/vscode"
TEXTMATE = TextMate(EXTENSION / "space.tmLanguage.json")

SCOPES = {
    "NAME": r"(entity\.name\.function|variable\.other)\..*",
    "VALUE_NAME": r"constant\.other\.value\..*",
    "SET_NAME": r"entity\.name\.type\.set\..*",
    "VARIABLE": r"variable\.(parameter|language)\..*",
    "NUMBER": r"constant\.numeric\..*",
    "DOC": r"comment\.line\.documentation\..*",
}
"""Of the terminals that stand for many words; what is inside of a HOST has scopes of its own."""

KEYWORD = r"(keyword\.(declaration|other|control|operator\.word)|constant\.language)\..*"
SIGN = r"(keyword\.operator|punctuation)\.space"


def expected(terminal: str, text: str) -> str:
    if terminal in SCOPES:
        return SCOPES[terminal]
    return KEYWORD if text.isalpha() else SIGN


@pytest.mark.parametrize("terminal", [t for t in grammar().terminals if t.pattern.type == "str"], ids=str)
def test_every_keyword_and_sign_of_the_grammar_has_its_scope(terminal: TerminalDef) -> None:
    text = terminal.pattern.value
    scopes = set(TEXTMATE.scopes(f" {text} ")[1 : 1 + len(text)])
    assert len(scopes) == 1
    assert re.fullmatch(expected("", text), scopes.pop())


def written() -> Iterator[Any]:
    """Every space of the project: files, and what the pages show as right."""
    for path in sorted(
        p for folder in ("docs", "kernels", "tests") for p in (ROOT / folder).rglob("*.space")
    ):
        yield pytest.param(path.read_text(encoding="utf-8"), id=str(path.relative_to(ROOT)))
    for page in sorted((ROOT / "docs").glob("*.md")):
        blocks = re.findall(r"```space(?: right)?\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        for number, block in enumerate(blocks, 1):
            yield pytest.param(block, id=f"{page.name}-{number}")


GIVEN = [FORMATTED, LINALG, REFERENCE, listings.SETS, listings.GPU, PREAMBLE]


@pytest.mark.parametrize("text", [*GIVEN, *written()])
def test_every_token_of_a_file_has_the_scope_of_its_kind(text: str) -> None:
    scopes = TEXTMATE.scopes(text)
    assert len(scopes) == len(text)
    covered = [False] * len(text)
    for token in grammar().lex(text):
        assert token.start_pos is not None and token.end_pos is not None
        inside = scopes[token.start_pos : token.end_pos]
        covered[token.start_pos : token.end_pos] = [True] * len(inside)
        if token.type == "HOST":
            assert {inside[0], inside[-1]} == {"string.quoted.double.space"}
            assert all(inside)
            continue
        assert len(set(inside)) == 1, token
        assert re.fullmatch(expected(token.type, str(token)), inside[0]), (token, inside[0])
    # Whatever is no token is blank or a comment.
    rest = [(c, scope) for c, scope, done in zip(text, scopes, covered, strict=True) if not done]
    assert all(scope.startswith("comment.") or (not scope and c.isspace()) for c, scope in rest)


def test_words_inside_a_string_have_scopes_of_their_own() -> None:
    text = "require \"$dim.size in [1, 2] and 'set' != \\\n  $kernel.name\""
    scopes = TEXTMATE.scopes(text)

    def scope(word: str) -> str:
        return scopes[text.index(word)]

    assert scope("$dim") == "variable.parameter.space"
    assert scope("$kernel") == "variable.language.space"
    assert scope("and") == "keyword.operator.word.python"
    assert scope("'set'") == "string.quoted.single.python"
    assert scope("1,") == "constant.numeric.python"
    assert scope(".name") == "string.quoted.double.space"


def test_a_string_that_is_not_closed_ends_with_its_line() -> None:
    text = 'require "never closed\nset Items: end'
    assert TEXTMATE.scopes(text)[text.index("set Items")] == "keyword.declaration.space"


def test_the_extension_names_files_that_exist_and_commands_that_it_registers() -> None:
    package = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    contributed = package["contributes"]
    (language,), (colours,) = contributed["languages"], contributed["grammars"]
    assert language["extensions"] == [".space"]
    for path in (package["main"], language["configuration"], colours["path"]):
        assert (EXTENSION / path).is_file()
    script = (EXTENSION / "extension.js").read_text(encoding="utf-8")
    assert all(f'"{command["command"]}"' in script for command in contributed["commands"])
    configuration = json.loads((EXTENSION / "language-configuration.json").read_text(encoding="utf-8"))
    assert re.findall(configuration["wordPattern"], "kind($dim) <= 16") == ["kind", "$dim", "16"]


LINES = """
const settings = JSON.parse(require("fs").readFileSync(process.argv[1], "utf-8"));
const { increaseIndentPattern, decreaseIndentPattern } = settings.indentationRules;
const [more, less] = [new RegExp(increaseIndentPattern), new RegExp(decreaseIndentPattern)];
settings.onEnterRules.forEach((rule) => new RegExp(rule.beforeText));
const lines = JSON.parse(process.argv[2]);
console.log(JSON.stringify(lines.map((line) => Number(more.test(line)) - Number(less.test(line)))));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="the patterns are JavaScript's")
def test_what_begins_a_block_is_indented_and_end_is_not() -> None:
    depths = {
        "choice enum kind($x in Things):": 1,
        "  value A: // the first": 1,
        "  value A: value B:": 1,
        "// note:": 0,
        "require a($x) is A": 0,
        "end": -1,
        "  end": -1,
        "ending($x) <= 3": 0,
    }
    configuration = EXTENSION / "language-configuration.json"
    command = ["node", "-e", LINES, str(configuration), json.dumps(list(depths))]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == list(depths.values())


RUN = """
const assert = require("assert");
const started = [];
class LanguageClient {
  constructor(id, name, server, options) { Object.assign(this, { server, options }); }
  async start() { started.push(this); if (this.server.command === "absent") throw new Error("ENOENT"); }
  async stop() { this.stopped = true; }
}
let command = ["spacedsl", "lsp"];
const commands = {}, errors = [];
const vscode = {
  workspace: {
    getConfiguration: () => ({ get: () => command }),
    onDidChangeConfiguration: () => ({}),
    createFileSystemWatcher: (pattern) => ({ pattern }),
  },
  commands: { registerCommand: (name, run) => { commands[name] = run; return {}; } },
  window: { showErrorMessage: (message) => errors.push(message) },
};
const load = require("module")._load;
require("module")._load = (name, ...rest) =>
  name === "vscode" ? vscode
    : name === "vscode-languageclient/node" ? { LanguageClient } : load(name, ...rest);
(async () => {
  const extension = require(process.argv[1]);
  const context = { subscriptions: [] };
  await extension.activate(context);
  assert.deepStrictEqual(started[0].server, { command: "spacedsl", args: ["lsp"] });
  assert.strictEqual(started[0].options.documentSelector[0].language, "space");
  assert.strictEqual(started[0].options.synchronize.fileEvents.pattern, "**/*.space");
  assert.strictEqual(context.subscriptions.length, 3);
  await commands["spacedsl.restart"]();
  assert.ok(started[0].stopped && started.length === 2);
  command = ["absent"];
  await commands["spacedsl.restart"]();
  assert.match(errors[0], /Cannot start `absent`: ENOENT.*pip install/);
  await extension.deactivate();
})().catch((error) => { console.error(error); process.exit(1); });
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="the extension runs on Node.js")
def test_the_extension_starts_the_server_and_says_what_is_missing() -> None:
    ran = subprocess.run(
        ["node", "-e", RUN, str(EXTENSION / "extension.js")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
