"""Salvage saves the longest good prefix, names all the rest, and touches no other session."""

from __future__ import annotations

from pathlib import Path

import pytest

from sawlog.store.database import open_database
from sawlog.store.errors import Damaged, NoSession
from sawlog.store.exchange import load
from sawlog.store.log import Log
from sawlog.store.salvage import Rest, salvage
from tests.store.damage import HEAD, Copy, Template, named, say
from tests.store.files import file_of


@pytest.mark.parametrize("seq", range(1, HEAD + 1))
def test_the_longest_good_prefix_is_saved(
    copy: Copy, template: Template, tmp_path: Path, seq: int
) -> None:
    raw = copy.fresh()
    raw.execute("UPDATE events SET step = step + 1 WHERE sid = 1 AND seq = ?", (seq,))
    raw.close()
    with (
        open_database(copy.path, read_only=True) as database,
        open_database(tmp_path / "new.db") as fresh,
    ):
        log, new = Log(database), Log(fresh)
        saved = salvage(log, log.session("hurt"))
        assert (saved.session, saved.name) == (template.ids["hurt"], "hurt")
        assert saved.last_good == seq - 1
        assert [rest.seq for rest in saved.rest] == list(range(seq, HEAD + 1))
        assert "digest" in saved.rest[0].what and not saved.rest[0].readable
        for rest in saved.rest[1:]:
            assert rest == Rest(rest.seq, f"it stands behind event {seq}, which is damaged", True)
        row = load(new, saved.good)
        assert (row.head, row.digest) == (seq - 1, saved.digest)
        whole = template.files["hurt"].splitlines(keepends=True)
        assert list(saved.good)[:-1] == whole[: len(list(saved.good)) - 1]
        assert list(saved.good) == list(saved.good)
        assert named(new) == {}


def test_nothing_is_wrong_with_a_sound_session(copy: Copy, template: Template) -> None:
    copy.fresh().close()
    with open_database(copy.path, read_only=True) as database:
        log = Log(database)
        for name, file in template.files.items():
            saved = salvage(log, log.session(name))
            assert saved.rest == () and b"".join(saved.good) == file
        with pytest.raises(NoSession):
            salvage(log, b"n" * 16)


def test_each_kind_of_damage_says_its_reason(copy: Copy, template: Template) -> None:
    """The digest, a missing row, a row that does not read, a blob; and a row that needs mending."""
    raw = copy.fresh()
    raw.executescript(
        "UPDATE events SET cites = NULL WHERE sid = 1 AND seq = 3;"
        "UPDATE events SET digest = zeroblob(32) WHERE sid = 1 AND seq = 4;"
        "DELETE FROM events WHERE sid = 1 AND seq IN (6, 7);"
        "UPDATE events SET payload = 'text' WHERE sid = 1 AND seq = 9;"
        "UPDATE events SET codec = 5 WHERE sid = 1 AND seq = 11;"
        "DELETE FROM events WHERE sid = 1 AND seq = 12;"
        "UPDATE blobs SET data = zeroblob(10) WHERE size > 6500"
    )
    raw.close()
    with open_database(copy.path, read_only=True) as database:
        log = Log(database)
        saved = salvage(log, log.session("hurt"))
        assert saved.last_good == 3
        told = {rest.seq: (rest.what, rest.readable) for rest in saved.rest}
    assert set(told) == {3, 4, 5, 6, 8, 9, 10, 11, 12}
    assert told[3] == ("the blobs listed beside it are not those that it names", True)
    assert "digest does not follow" in told[4][0]
    assert told[5] == ("it stands behind event 4, which is damaged", True)
    assert told[6] == ("the rows of events 6 to 7 are missing", False)
    assert told[9][0].endswith("its row does not hold what belongs there")
    assert "codec 5" in told[11][0]
    assert told[12] == ("its row is missing", False)
    assert not told[8][1] and not told[9][1] and not told[11][1]


def test_damage_of_a_fork_in_its_ancestors(copy: Copy, tmp_path: Path) -> None:
    raw = copy.fresh()
    raw.execute("UPDATE events SET type = 'message.usex' WHERE sid = 1 AND seq = 3")
    raw.close()
    with (
        open_database(copy.path, read_only=True) as database,
        open_database(tmp_path / "new.db") as fresh,
    ):
        log, new = Log(database), Log(fresh)
        saved = salvage(log, log.session("child"))
        assert saved.last_good == 2 and [rest.seq for rest in saved.rest] == [3, 4, 5, 6, 7]
        row = load(new, saved.good)
        assert (row.name, row.head) == ("child", 2)
        assert b"".join(saved.good) == file_of(new, row)
        assert named(new) == {}


def test_an_append_does_not_build_on_a_damaged_directory(copy: Copy) -> None:
    for column, value in (("fence", 9), ("owner", "x"), ("name", "hurd"), ("source_id", None)):
        raw = copy.fresh()
        raw.execute(f"UPDATE sessions SET {column} = ? WHERE sid = 1", (value,))
        raw.close()
        with open_database(copy.path) as database:
            log = Log(database)
            session = log.sessions()[0]
            with pytest.raises(Damaged, match="check number"):
                log.append(session, [say("more")])
            with pytest.raises(Damaged, match="check number"):
                log.leases.acquire(session.id, "me", 1.0)
            assert log.get(session).head == HEAD


def test_rows_behind_the_head_are_named(copy: Copy, template: Template) -> None:
    raw = copy.fresh()
    head, digest = raw.execute(
        "SELECT seq, digest FROM events WHERE sid = 1 AND seq = 10"
    ).fetchone()
    raw.execute("UPDATE sessions SET head = ?, digest = ? WHERE sid = 1", (head, digest))
    raw.close()
    assert copy.named() == {template.ids["hurt"]: 11}
    with open_database(copy.path, read_only=True) as database:
        log = Log(database)
        saved = salvage(log, log.session("hurt"))
        assert saved.last_good == HEAD and b"".join(saved.good) == template.files["hurt"]
