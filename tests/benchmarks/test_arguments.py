"""What all benchmarks take on their command lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import arguments, bound_usefulness, neighbours, search_speed, spread

MATMUL = str(Path(__file__).resolve().parents[2] / "kernels" / "library" / "matmul.yaml")


@pytest.mark.parametrize(("name", "said"), [("nowhere.yaml", "there is no such file"), (".", "a folder")])
def test_a_kernel_file_that_is_not_there_is_a_usage_error(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        search_speed.main([str(tmp_path / name)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("main", "flags", "said"),
    [
        (search_speed.main, ["--time", "soon"], "`soon` is not a length of time: write 90s, 3m or 1h30m"),
        (search_speed.main, ["--batch", "0"], "`0` is no whole number of at least 1"),
        (neighbours.main, ["--count", "0"], "`0` is no whole number of at least 1"),
        (spread.main, ["--seeds", "-1"], "`-1` is no whole number of at least 1"),
        (spread.main, ["--json", "nowhere/found.json"], "nowhere: there is no such folder"),
        (spread.main, ["--json", "."], ".: a folder"),
        (bound_usefulness.main, ["--cut", "matmul=soon"], "`soon` is not a length of time"),
        (bound_usefulness.main, ["--cut", "axpy=3ms"], "there is no kernel here whose time this is: axpy"),
        (bound_usefulness.main, ["--cut", "matmul=3ms", "--samples", "1"], "instead of --cut, give --record"),
    ],
)
def test_a_wrong_flag_is_a_usage_error_before_anything_is_measured(
    main: Callable[[list[str]], int], flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([MATMUL, *flags])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_what_is_wrong_in_a_file_is_said_in_words_and_a_bug_with_its_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    with pytest.raises(SystemExit) as ended:
        arguments.run(lambda: search_speed.main([str(empty)]))
    assert ended.value.code == 1
    assert "empty.yaml:1:1: error KF002: the file is empty" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        arguments.run(lambda: search_speed.main([MATMUL, "--size", "q=3"]))
    assert ended.value.code == 2
    assert "has no size `q`" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        arguments.run(lambda: 1 // 0)


def test_a_benchmark_ends_with_the_code_of_its_function() -> None:
    for code in (0, 1):
        with pytest.raises(SystemExit) as ended:
            arguments.run(lambda: code)  # noqa: B023
        assert ended.value.code == code
