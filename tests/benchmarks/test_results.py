"""What a run prints and keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks import plots, results
from benchmarks.results import Line, Results, ratio


def found() -> Results:
    lines = [
        ratio("1", "append", [70.0, 80.0, 60.0], [100.0] * 3, "/s", target=0.7, at_least=True),
        ratio("6", "resume", [1.0, 3.0], [10.0, 10.0], "ms", target=0.1, size=1000),
        Line(row="8", what="bytes", values=[0.4], target=0.5),
        Line(row="3", what="no target", values=[7.0], window=False),
    ]
    return Results(machine={"cores": 2}, options={}, lines=lines, left_out=["PostgreSQL: none"])


def test_a_ratio_is_made_round_by_round() -> None:
    one, other, size, free = found().lines
    assert one.values == [0.7, 0.8, 0.6] and one.value == 0.7
    assert [line.met for line in (one, other, size, free)] == [True, False, True, None]


def test_the_file_comes_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    results.write(found(), file)
    assert results.read(file) == found()
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="is no results file"):
        results.read(file)
    results.write(replace(found(), format=9), file)
    with pytest.raises(ValueError, match="has layout 9, and this reads 1: measure anew"):
        results.read(file)


def test_the_table_names_target_spread_and_what_was_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results.show(found())
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines()]
    assert ["1", "append", "0.7", "0.6-0.8", ">=", "0.7", "yes", "70", "/", "100", "/s"] in rows
    assert any(row[:5] == ["6", "resume,", "N=1,000", "0.2", "0.1-0.3"] for row in rows)
    assert "no target, no window" in printed
    assert "left out: PostgreSQL: none" in printed and "2 of 3 targets met" in printed


def test_a_figure_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="comes with the extra `bench`")
    file = tmp_path / "found.json"
    results.write(found(), file)
    drawn: list[bytes] = []
    for name in ("one", "other"):
        assert plots.main([str(file), str(tmp_path / name)]) == 0
        drawn.append((tmp_path / name / "storing.svg").read_bytes())
    assert drawn[0] == drawn[1] and drawn[0].startswith(b"<?xml")
