"""The protocol: what an editor asks becomes calls of this package, and the answers become messages.

In: requests, by pygls. Out: responses and published diagnostics. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span
from spacedsl.language.formatter import format_source
from spacedsl.lsp.analysis import Workspace
from spacedsl.lsp.completion import ProposalKind, complete
from spacedsl.lsp.hover import definition, hover
from spacedsl.lsp.outline import Entry, outline
from spacedsl.lsp.positions import Positions, positions
from spacedsl.lsp.rename import RenameError, references, rename, renameable
from spacedsl.lsp.symbols import SymbolKind

_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.NOTE: lsp.DiagnosticSeverity.Information,
}

_UNUSED = ("SP101", "SP102")

_PROPOSALS = {
    ProposalKind.KEYWORD: lsp.CompletionItemKind.Keyword,
    ProposalKind.SET: lsp.CompletionItemKind.Class,
    ProposalKind.CHOICE: lsp.CompletionItemKind.Function,
    ProposalKind.VALUE: lsp.CompletionItemKind.EnumMember,
    ProposalKind.VARIABLE: lsp.CompletionItemKind.Variable,
    ProposalKind.ATTRIBUTE: lsp.CompletionItemKind.Field,
    ProposalKind.FUNCTION: lsp.CompletionItemKind.Function,
}

_ENTRIES = {
    SymbolKind.SET: lsp.SymbolKind.Class,
    SymbolKind.CHOICE: lsp.SymbolKind.Enum,
    SymbolKind.QUANTITY: lsp.SymbolKind.Function,
    SymbolKind.MAP: lsp.SymbolKind.Function,
    SymbolKind.VALUE: lsp.SymbolKind.EnumMember,
    SymbolKind.VARIABLE: lsp.SymbolKind.Variable,
    SymbolKind.ORDERING: lsp.SymbolKind.Array,
    SymbolKind.VIEW: lsp.SymbolKind.Array,
    None: lsp.SymbolKind.Event,
}


class SpaceServer(LanguageServer):
    """The server of one editor."""

    def __init__(self) -> None:
        # Whole texts: files are small, and lines are counted in one place only.
        super().__init__(
            "spacedsl", version("spacedsl"), text_document_sync_kind=lsp.TextDocumentSyncKind.Full
        )
        self.spaces = Workspace()
        self.published: set[str] = set()
        """The files that diagnostics are shown for."""
        self.opened: dict[Path, str] = {}
        """By the paths of open documents, without links."""

    # Places

    def uri(self, path: Path) -> str:
        """What the editor calls a file: a document that it has opened through a link goes by that name."""
        uri: str | None = self.opened.get(path) or from_fs_path(str(path))
        assert uri is not None, f"{path} is absolute"
        return uri

    def positions(self, text: str) -> Positions:
        encoding = self.workspace.position_encoding or lsp.PositionEncodingKind.Utf16
        return positions(text, lsp.PositionEncodingKind(encoding).value)

    def range(self, span: Span) -> lsp.Range:
        positions = self.positions(span.source.text)
        (line, column), (end_line, end_column) = positions.position(span.start), positions.position(span.end)
        return lsp.Range(lsp.Position(line, column), lsp.Position(end_line, end_column))

    def location(self, place: Span | Path) -> lsp.Location:
        if isinstance(place, Path):
            start = lsp.Position(0, 0)
            return lsp.Location(self.uri(place), lsp.Range(start, start))
        return lsp.Location(self.uri(Path(place.source.name).resolve()), self.range(place))

    def place(self, document: lsp.TextDocumentIdentifier, position: lsp.Position) -> tuple[Path, int]:
        """The path and the offset that a request is about."""
        path = _path(document.uri)
        text = self.text(path)
        return path, self.positions(text).offset(position.line, position.character)

    def text(self, path: Path) -> str:
        if path not in self.spaces.texts:
            raise _refused(f"{path} is not open")
        return self.spaces.texts[path]

    # Diagnostics

    def publish(self) -> None:
        """Sends the diagnostics of all open files, and takes back those that no longer hold."""
        found = {self.uri(path): diagnostics for path, diagnostics in self.spaces.diagnostics().items()}
        for uri in sorted(self.published - found.keys()):
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
        for uri, diagnostics in found.items():
            shown = [self.diagnostic(d) for d in diagnostics]
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, shown))
        self.published = set(found)

    def diagnostic(self, diagnostic: Diagnostic) -> lsp.Diagnostic:
        hint = f"\n{diagnostic.hint}" if diagnostic.hint is not None else ""
        return lsp.Diagnostic(
            self.range(diagnostic.span),
            diagnostic.message + hint,
            severity=_SEVERITIES[diagnostic.severity],
            code=diagnostic.code,
            source="spacedsl",
            tags=[lsp.DiagnosticTag.Unnecessary] if diagnostic.code in _UNUSED else None,
            related_information=[
                lsp.DiagnosticRelatedInformation(self.location(span), words)
                for span, words in diagnostic.related
            ],
        )

    # Outline

    def entry(self, entry: Entry) -> lsp.DocumentSymbol:
        return lsp.DocumentSymbol(
            name=entry.name,
            kind=_ENTRIES[entry.kind],
            range=self.range(entry.extent),
            selection_range=self.range(entry.place),
            children=[self.entry(child) for child in entry.children],
        )


def _path(uri: str) -> Path:
    path = to_fs_path(uri)
    if path is None:
        raise _refused(f"{uri} is no file")
    return Path(path).resolve()


def _refused(message: str) -> JsonRpcException:
    """What the editor shows to its user in place of a result."""
    return JsonRpcException(message, int(lsp.LSPErrorCodes.RequestFailed))


def make_server() -> SpaceServer:
    """A server with all of its features; nothing runs yet."""
    server = SpaceServer()
    for register in (_documents, _names, _texts):
        register(server)
    return server


def _documents(server: SpaceServer) -> None:
    """What tells the server of files that change."""

    @server.feature(lsp.INITIALIZED)
    def initialized(params: lsp.InitializedParams) -> None:
        folders = [to_fs_path(uri) for uri in server.workspace.folders]
        server.spaces.folders = tuple(Path(folder).resolve() for folder in folders if folder is not None)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        path = _path(params.text_document.uri)
        server.opened[path] = params.text_document.uri
        server.spaces.update(path, params.text_document.text)
        server.publish()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.spaces.update(_path(uri), server.workspace.get_text_document(uri).source)
        server.publish()

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def written(params: lsp.DidSaveTextDocumentParams | lsp.DidChangeWatchedFilesParams) -> None:
        server.spaces.refresh()
        server.publish()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        path = _path(params.text_document.uri)
        server.opened.pop(path, None)
        server.spaces.close(path)
        server.publish()


def _names(server: SpaceServer) -> None:
    """What names mean, and other names for them."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        found = hover(server.spaces, *server.place(params.text_document, params.position))
        if found is None:
            return None
        content = lsp.MarkupContent(lsp.MarkupKind.Markdown, found.markdown)
        return lsp.Hover(content, None if found.span is None else server.range(found.span))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def defined(params: lsp.DefinitionParams) -> Sequence[lsp.Location]:
        return [
            server.location(place)
            for place in definition(server.spaces, *server.place(params.text_document, params.position))
        ]

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def referred(params: lsp.ReferenceParams) -> Sequence[lsp.Location]:
        spans = references(server.spaces, *server.place(params.text_document, params.position))
        skipped = 0 if params.context.include_declaration else 1
        return [server.location(span) for span in spans[skipped:]]

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepared(params: lsp.PrepareRenameParams) -> lsp.Range:
        try:
            return server.range(
                renameable(server.spaces, *server.place(params.text_document, params.position)).span
            )
        except RenameError as error:
            raise _refused(str(error)) from None

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def renamed(params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        try:
            changes = rename(
                server.spaces, *server.place(params.text_document, params.position), params.new_name
            )
        except RenameError as error:
            raise _refused(str(error)) from None
        return lsp.WorkspaceEdit(
            changes={
                server.uri(path): [lsp.TextEdit(server.range(edit.span), edit.text) for edit in edits]
                for path, edits in changes.items()
            }
        )

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outlined(params: lsp.DocumentSymbolParams) -> Sequence[lsp.DocumentSymbol]:
        path = _path(params.text_document.uri)
        server.text(path)
        analysis = server.spaces.around(path)
        return [server.entry(entry) for entry in outline(analysis, path)]


def _texts(server: SpaceServer) -> None:
    """What is typed, and how it is laid out."""

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=["$", ".", "|", "(", " "])
    )
    def completed(params: lsp.CompletionParams) -> lsp.CompletionList:
        path, offset = server.place(params.text_document, params.position)
        completion = complete(server.spaces, path, offset)
        replaced = server.range(Span(Source(str(path), server.text(path)), completion.start, offset))
        return lsp.CompletionList(
            is_incomplete=False,
            items=[
                lsp.CompletionItem(
                    label=proposal.label,
                    kind=_PROPOSALS[proposal.kind],
                    detail=proposal.detail or None,
                    documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, proposal.documentation),
                    sort_text=f"{number:04}",
                    filter_text=proposal.label,
                    text_edit=lsp.TextEdit(replaced, proposal.inserted),
                )
                for number, proposal in enumerate(completion.proposals)
            ],
        )

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatted(params: lsp.DocumentFormattingParams) -> Sequence[lsp.TextEdit]:
        path = _path(params.text_document.uri)
        source = Source(str(path), server.text(path))
        try:
            text = format_source(source)
        except DiagnosticError:
            return []  # the diagnostics are on the screen
        return [] if text == source.text else [_replacement(server, source, text)]


def _replacement(server: SpaceServer, source: Source, new: str) -> lsp.TextEdit:
    """One edit from the first line that differs to the last one, so that the cursor elsewhere stays."""
    old_lines, new_lines = source.text.splitlines(keepends=True), new.splitlines(keepends=True)
    most = min(len(old_lines), len(new_lines))
    first = next((i for i in range(most) if old_lines[i] != new_lines[i]), most)
    last = next((i for i in range(most - first) if old_lines[-1 - i] != new_lines[-1 - i]), most - first)
    start = sum(map(len, old_lines[:first]))
    end = len(source.text) - sum(map(len, old_lines[len(old_lines) - last :]))
    return lsp.TextEdit(
        server.range(Span(source, start, end)), "".join(new_lines[first : len(new_lines) - last])
    )
