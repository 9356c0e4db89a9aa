from __future__ import annotations

from pathlib import Path

import pytest

from tests.lsp.editing import Editor


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    return Editor(tmp_path)
