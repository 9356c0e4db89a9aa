"""What all benchmarks take on their command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import search_speed


@pytest.mark.parametrize(("name", "said"), [("nowhere.yaml", "there is no such file"), (".", "a folder")])
def test_a_kernel_file_that_is_not_there_is_a_usage_error(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        search_speed.main([str(tmp_path / name)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
