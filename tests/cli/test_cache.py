"""cache: what each request keeps of the one before it, and by what it broke."""

from __future__ import annotations

from tests.cli import written
from tests.cli.command import sawlog


def test_the_break_is_named_with_its_cost(store: str) -> None:
    found = sawlog("--store", store, "cache", written.NAME, "--json").json
    assert len(found["steps"]) == written.STEPS - 1
    broken = [one for one in found["steps"] if one["causes"]]
    assert [one["causes"] for one in broken] == [["block_cut"]] * len(broken) and broken
    assert found["causes"] == {"block_cut": len(broken)}
    assert broken[0]["units"] > 0 and broken[0]["share"] < 0.9
    whole = [one for one in found["steps"] if not one["causes"]]
    assert all(one["share"] > 0.98 and one["kept_entries"] == one["entries"] for one in whole)
    text = sawlog("--store", store, "cache", written.NAME).text
    assert "the policy's block cut (" in text and f"breaks: block_cut {len(broken)}" in text


def test_all_lists_every_step(file_store: str) -> None:
    few = sawlog("--store", file_store, "cache", "-").text.splitlines()
    all_ = sawlog("--store", file_store, "cache", "-", "--all").text.splitlines()
    assert len(all_) == 1 + (written.STEPS - 1) + 3 > len(few)
