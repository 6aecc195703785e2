"""repack, migrate of an older schema, and what doctor says of packs."""

from __future__ import annotations

import gzip
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sawlog.agentlog import open as open_log
from tests.cli.command import one_sentence, sawlog
from tests.store.stores import ROOT


def filled(path: Path) -> str:
    """A store with a session of many small events and one of few."""
    with open_log(str(path)) as log:
        for name, count in (("many", 900), ("few", 3)):
            with log.session(name) as s:
                for number in range(count):
                    s.user(f"message {number} of the same kind as all others, with a few words")
    return str(path)


def test_repack_takes_less_room_and_changes_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path / "s.db")
    before = [sawlog("--store", store, "export", name).out for name in ("many", "few")]
    size = os.path.getsize(store)
    packed = sawlog("--store", store, "doctor", "--json").json["store"]["packed"]
    assert 500 < packed < 900
    done = sawlog("--store", store, "repack", "many", "--json").json
    assert done == {"before": size, "after": size}  # room for what comes, not yet given back
    done = sawlog("--store", store, "repack", "--shrink", "--json").json
    assert done["before"] == size and done["after"] == os.path.getsize(store) < size * 0.9
    assert sawlog("--store", store, "doctor", "--json").json["store"]["packed"] > packed
    assert "bytes before" in sawlog("--store", store, "repack").text
    assert [sawlog("--store", store, "export", name).out for name in ("many", "few")] == before
    assert sawlog("--store", store, "verify", "--all").code == 0


def test_repack_of_what_is_not_there_says_so(tmp_path: Path) -> None:
    store = filled(tmp_path / "s.db")
    assert "no session is named" in one_sentence(sawlog("--store", store, "repack", "nobody"))
    missing = sawlog("--store", tmp_path / "none.db", "repack")
    assert "no store" in one_sentence(missing) and not (tmp_path / "none.db").exists()


def test_a_damaged_session_is_named_and_hides_no_other(tmp_path: Path) -> None:
    store = filled(tmp_path / "s.db")
    with closing(sqlite3.connect(store)) as raw:
        raw.execute("UPDATE events SET payload = x'00' WHERE seq = 700 AND sid = 1")
        raw.commit()
    with open_log(store, read_only=True) as log:
        few = log.find("few").sid
    done = sawlog("--store", store, "repack")
    assert done.code == 4 and "700" in one_sentence(done)
    with closing(sqlite3.connect(store)) as raw:
        assert raw.execute("SELECT count(*) FROM packs WHERE sid = ?", (few,)).fetchone() == (1,)


def test_repack_of_postgresql_has_nothing_to_do(postgres_url: str) -> None:
    assert sawlog("--store", postgres_url, "migrate").code == 0
    assert "no packs" in sawlog("--store", postgres_url, "repack").text


def test_an_older_store_is_looked_at_as_it_is_and_migrated_on_demand(tmp_path: Path) -> None:
    store = tmp_path / "old.db"
    golden = ROOT / "fixtures" / "stores" / "schema-1.db.gz"
    store.write_bytes(gzip.decompress(golden.read_bytes()))
    assert sawlog("--store", store, "doctor", "--json").json["store"]["schema"] == 1
    assert len(sawlog("--store", store, "ls", "--json").json) == 2
    assert sawlog("--store", store, "verify", "--all").code == 0
    assert sawlog("--store", store, "migrate", "--json").json == {"before": 1, "after": 2}
    assert sawlog("--store", store, "migrate", "--json").json == {"before": 2, "after": 2}
    assert sawlog("--store", store, "doctor", "--json").json["store"]["schema"] == 2
    assert sawlog("--store", store, "verify", "--all").code == 0
