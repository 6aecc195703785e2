"""--zones: what each zone of a packet takes, for a person and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from sawlog.agentlog import open as open_log
from tests.cli.command import one_sentence
from tests.cli.command import sawlog as command

POLICY = """
name = "bounded"
number = 1
stages = [
    { stage = "sensitivity" }, { stage = "scope" }, { stage = "required" },
    { stage = "rank", signals = ["relevance"] },
    { stage = "budget", bounds = [{ zone = "retrieved", units = 120 }] },
    { stage = "labels" }, { stage = "completeness" },
]
"""


@pytest.fixture
def bounded(tmp_path: Path) -> str:
    """A store with a session under a policy file that bounds a zone."""
    (tmp_path / "mine.toml").write_text(POLICY)
    store = str(tmp_path / "agent.db")
    with open_log(store) as log, log.session("s", policy=tmp_path / "mine.toml", window=2000) as s:
        s.system("Be short.")
        for at in range(4):
            s.offer(
                f"page {at} " + "x" * 160,
                channel="retrieval",
                source_id=f"page-{at}",
                locator=f"{at}.md",
                relevance=900 - at,
            )
        s.user("Which port?")
        s.step("openai-chat", model="m")
    return store


@pytest.mark.parametrize("of", ["show", "packet"])
def test_zones_of_a_step(bounded: str, of: str) -> None:
    text = command("--store", bounded, of, "s@1", "--zones").text
    lines = text.split("\nzones\n")[1].splitlines()
    assert [line.split()[0] for line in lines] == ["fixed", "retrieved", "history"]
    found = command("--store", bounded, of, "s@1", "--zones", "--json").json["zones"]
    assert [one["zone"] for one in found] == ["fixed", "retrieved", "history"]
    assert [one["bound"] for one in found] == [None, 120, None]
    assert lines[1].split() == ["retrieved", str(found[1]["units"]), "units", "of", "120"]
    assert 80 < found[1]["units"] <= 120
    assert "zones" not in command("--store", bounded, of, "s@1", "--json").json
    assert "\nzones\n" not in command("--store", bounded, of, "s@1").text


def test_why_tells_the_zone_that_was_full(bounded: str) -> None:
    text = command("--store", bounded, "why", "s@1", "page-3").text
    assert "not seen: zone_exceeded at stage budget (ranked low)" in text
    assert "zone retrieved is bounded to 120 units" in text
    found = command("--store", bounded, "show", "s@1", "--zones", "--json").json["zones"]
    held = f"of which the packet holds {found[1]['units']} of at most 120"
    assert f"in zone retrieved, {held}" in text
    [part] = command("--store", bounded, "why", "s@1", "page-3", "--json").json["parts"]
    assert (part["zone_units"], part["zone_bound"]) == (found[1]["units"], 120)


def test_zones_that_mean_nothing_are_refused(bounded: str) -> None:
    done = command("--store", bounded, "show", "s", "--zones")
    assert done.code == 2 and "SESSION@STEP" in one_sentence(done)
    done = command("--store", bounded, "packet", "s@1", "--raw", "--zones")
    assert done.code == 2 and "leave --zones out" in one_sentence(done)
    assert command("--store", bounded, "show", "s@7", "--zones").code == 2


def test_zones_of_an_imported_step(tmp_path: Path) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text('[{"role": "user", "content": "go"}, {"role": "assistant", "content": "gone"}]')
    store = tmp_path / "imported.db"
    assert command("--store", store, "import", chat).code == 0
    found = command("--store", store, "packet", "-@1", "--zones", "--json").json["zones"]
    assert [(one["zone"], one["bound"]) for one in found] == [("history", None)]
