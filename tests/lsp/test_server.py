"""The server as an editor meets it: a process that speaks the protocol over pipes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from tests.lsp.editing import SPACE, cursor

ROOT = Path(__file__).parents[2]
START = (sys.executable, "-c", "from spacedsl.cli.app import main; main()", "lsp")


@dataclass(slots=True)
class Session:
    """One editor with one file."""

    client: LanguageClient
    path: Path
    shown: dict[str, list[lsp.Diagnostic]] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    complaints: list[str] = field(default_factory=list)
    versions: int = 0

    @property
    def document(self) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.path.as_uri())

    async def type(self, marked: str) -> lsp.Position:
        """Makes this the text of the file; returns where `¦` is."""
        before, _, after = marked.partition("¦")
        text = before + after
        self.versions += 1
        self.news.clear()
        uri = self.document.uri
        if self.versions == 1:
            item = lsp.TextDocumentItem(uri, "space", self.versions, text)
            self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        else:
            self.client.text_document_did_change(
                lsp.DidChangeTextDocumentParams(
                    lsp.VersionedTextDocumentIdentifier(self.versions, uri),
                    [lsp.TextDocumentContentChangeWholeDocument(text)],
                )
            )
        await asyncio.wait_for(self.news.wait(), 30)
        assert self.complaints == []
        row = before.rpartition("\n")[2]
        return lsp.Position(before.count("\n"), len(row.encode("utf-16-le")) // 2)

    def codes(self) -> list[str]:
        return [str(d.code) for d in self.shown[self.document.uri]]


def in_session(path: Path, talk: Callable[[Session], Awaitable[None]]) -> None:
    """Starts a server, talks to it, and sees it end by itself."""

    async def run() -> int | None:
        client = LanguageClient("test", "1")
        session = Session(client, path)

        @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def published(params: lsp.PublishDiagnosticsParams) -> None:
            session.shown[params.uri] = list(params.diagnostics)
            session.news.set()

        @client.feature(lsp.WINDOW_SHOW_MESSAGE)  # type: ignore[untyped-decorator]
        def complained(params: lsp.ShowMessageParams) -> None:
            session.complaints.append(params.message)
            session.news.set()

        await client.start_io(*START, cwd=ROOT)
        folder = lsp.WorkspaceFolder(path.parent.as_uri(), "test")
        await client.initialize_async(
            lsp.InitializeParams(lsp.ClientCapabilities(), workspace_folders=[folder])
        )
        client.initialized(lsp.InitializedParams())
        try:
            await talk(session)
        finally:
            await client.shutdown_async(None)
            client.exit(None)
            server = client._server
            assert server is not None
            code = await asyncio.wait_for(server.wait(), 30)
            await client.stop()  # type: ignore[no-untyped-call]
        assert session.complaints == []
        return code

    assert asyncio.run(run()) == 0


def test_an_editor_gets_diagnostics_hover_definitions_names_and_layout(tmp_path: Path) -> None:
    async def talk(session: Session) -> None:
        client, document = session.client, session.document
        await session.type(SPACE)
        assert "SP012" not in session.codes()

        # Diagnostics while typing; a character outside the basic plane counts as two.
        await session.type(SPACE + '// 😀\n/* 😀 */ require forall $x in Nowhere: "$x.ok"')
        (wrong,) = [d for d in session.shown[document.uri] if d.code == "SP012"]
        assert wrong.range.start == lsp.Position(SPACE.count("\n") + 1, 30)
        assert wrong.severity is lsp.DiagnosticSeverity.Error
        assert "unknown set `Nowhere`" in wrong.message

        place = await session.type(cursor("when: ki¦nd"))
        hover = await client.text_document_hover_async(lsp.HoverParams(document, place))
        assert hover is not None
        assert isinstance(hover.contents, lsp.MarkupContent)
        assert "How a loop is written." in hover.contents.value
        found = await client.text_document_definition_async(lsp.DefinitionParams(document, place))
        assert isinstance(found, list)
        assert [f.range.start.line for f in found if isinstance(f, lsp.Location)] == [11]
        references = await client.text_document_references_async(
            lsp.ReferenceParams(
                lsp.ReferenceContext(include_declaration=False), text_document=document, position=place
            )
        )
        assert references is not None
        assert [r.range.start.line + 1 for r in references] == [27, 31, 34]

        edit = await client.text_document_rename_async(
            lsp.RenameParams(text_document=document, position=place, new_name="form")
        )
        assert edit is not None
        assert edit.changes is not None
        assert len(edit.changes[document.uri]) == 4
        with pytest.raises(JsonRpcException, match="there is already a choice `order`"):
            await client.text_document_rename_async(
                lsp.RenameParams(text_document=document, position=place, new_name="order")
            )
        symbols = await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))
        assert symbols is not None
        assert [s.name for s in symbols][:3] == ["Statements", "Dimensions", "Nest"]

        place = await session.type(SPACE + "require forall $x in Dimensions: kind($x) is LO¦")
        completion = await client.text_document_completion_async(lsp.CompletionParams(document, place))
        assert isinstance(completion, lsp.CompletionList)
        assert [item.label for item in completion.items][:3] == ["LOOP", "VECTOR", "ANY"]
        assert isinstance(completion.items[0].text_edit, lsp.TextEdit)
        assert completion.items[0].text_edit.range.start.character == place.character - 2

        loose = SPACE + "require   true\n"
        await session.type(loose)
        options = lsp.FormattingOptions(tab_size=8, insert_spaces=False)
        edits = await client.text_document_formatting_async(
            lsp.DocumentFormattingParams(text_document=document, options=options)
        )
        assert edits is not None
        (edit_of_last_line,) = [e for e in edits if "require true" in e.new_text]
        assert edit_of_last_line.range.end == lsp.Position(loose.count("\n"), 0)
        await session.type("set")
        wrong_text = lsp.DocumentFormattingParams(text_document=document, options=options)
        assert not await client.text_document_formatting_async(wrong_text)

        session.news.clear()
        client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))
        await asyncio.wait_for(session.news.wait(), 30)
        assert session.shown[document.uri] == []

    in_session(tmp_path / "main.space", talk)


def test_a_document_that_was_opened_through_a_link_goes_by_that_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    async def talk(session: Session) -> None:
        place = await session.type(cursor("when: ki¦nd"))
        assert "/link/main.space" in session.document.uri
        assert session.document.uri in session.shown
        edit = await session.client.text_document_rename_async(
            lsp.RenameParams(text_document=session.document, position=place, new_name="form")
        )
        assert edit is not None and edit.changes is not None
        assert [*edit.changes] == [session.document.uri]

    in_session(tmp_path / "link" / "main.space", talk)


def test_a_file_that_changes_on_the_disk_is_read_again(tmp_path: Path) -> None:
    included = tmp_path / "base.space"

    async def talk(session: Session) -> None:
        await session.type('include "base.space"\nrequire forall $x in Items: "$x.ok"\n')
        assert session.codes() == ["SP007"]
        included.write_text('set Items: iterator = "$kernel.items" end\n', encoding="utf-8")
        session.news.clear()
        change = lsp.FileEvent(included.as_uri(), lsp.FileChangeType.Created)
        session.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([change]))
        await asyncio.wait_for(session.news.wait(), 30)
        # The first answer may be about the other file; the next one comes at once.
        await session.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(session.document))
        assert session.codes() == []

    in_session(tmp_path / "main.space", talk)
