"""The face's follower: every event of every session once, in an order that later reads repeat."""

from __future__ import annotations

import sawlog


def test_a_follower_gets_every_event_of_all_sessions_once(store_url: str) -> None:
    with sawlog.open(store_url) as log:
        for name in ("a", "b"):
            with log.session(name) as s:
                s.user("one")
                s.user("two")
        first = list(log.follow())
        assert [one.event.type for one in first] == 2 * [
            "session.created",
            "message.user",
            "message.user",
        ]
        with log.session("a") as s:
            s.user("three")
        more = list(log.follow(first[-1].position))
        assert [(one.session.hex(), one.event.seq) for one in more] == [(log.find("a").id.hex(), 4)]
        again = [(one.session, one.event.seq) for one in log.follow()]
        assert again == [(one.session, one.event.seq) for one in (*first, *more)]
