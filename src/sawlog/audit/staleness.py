"""What a session's packets show that is no longer so: by the log, and by the workspace as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

import msgspec
from msgspec.structs import replace

from sawlog.audit.findings import Stale
from sawlog.audit.inforce import rules_from
from sawlog.audit.recorded import Recorded
from sawlog.builder import freshness, world
from sawlog.builder.arrange import Arrangement
from sawlog.builder.candidates import Known
from sawlog.builder.chosen import UNBOUNDED, choose
from sawlog.builder.contents import text_of
from sawlog.builder.facts import Sight
from sawlog.builder.measure import measure_of
from sawlog.builder.projector import fold_all
from sawlog.builder.state import Ref, State
from sawlog.store.errors import OutsideRoot
from sawlog.store.events.items import ItemOffered
from sawlog.store.events.world import FileChanged
from sawlog.workspace.comparing import Believed, changes

_WHOLE = frozenset(("full", "preview", "late", "item"))
"""Forms that show the text of a result, an observation or an item."""


class Belief(msgspec.Struct, frozen=True):
    """What the next packet of a session shows that holds no longer.

    `stale` is in the order of the packet. `files` are the paths that its texts are of, each with
    the version and state that the log last heard of; `outside` those that lead out of the root.
    """

    stale: tuple[Stale, ...]
    files: Believed
    outside: tuple[str, ...] = ()


def beliefs(
    session: Recorded,
    *,
    root: str | os.PathLike[str] | None = None,
    as_of: int | None = None,
) -> Belief:
    """What is stale at the session's newest event; with a `root` also against the files below it.

    `as_of` is microseconds UTC, for what ends at a time; without it, it is that of the newest
    packet. Raises ConfigError when `root` is no directory, UnknownNumber when the policy is not
    installed, BlobMissing.
    """
    state = fold_all(State(), session.events())
    refs = _refs(state)
    shown = _shown(refs)
    session.window.prefetch(refs)
    found = list(_files(state, shown))
    believed = believed_files(state)
    outside: list[OutsideRoot] = []
    if root is not None:
        now = {str(one.path): one for one in changes(believed, root, refused=outside)}
        found = [*_still(found, now), *_in_workspace(state, shown, now)]
    found.extend(_items(session, state, refs, as_of if as_of is not None else state.as_of or 0))
    found.extend(_world(state))
    found.sort(key=lambda one: (shown.get(one.seq, len(refs)), one.seq, one.kind, one.name))
    return Belief(tuple(found), believed, tuple(one.path for one in outside))


def _refs(state: State) -> list[Ref]:
    """What the next packet begins with: what was sent, then the news."""
    news = () if state.blocked else chain(*Arrangement().entries(state))
    return [*state.sent, *news]


def _shown(refs: list[Ref]) -> dict[int, int]:
    """Events whose texts are shown, each with its place."""
    return {ref.seq: at for at, ref in reversed(list(enumerate(refs))) if ref.form in _WHOLE}


# --- files ----------------------------------------------------------------------------------------


def _sights(state: State, shown: dict[int, int]) -> Iterator[tuple[int, Sight]]:
    """The texts of files that are shown, each with the event that shows it."""
    for seq, sights in dict(state.sights.items()).items():
        if seq in shown:
            for one in sights:
                yield seq, one


def _files(state: State, shown: dict[int, int]) -> Iterator[Stale]:
    for seq, sight in _sights(state, shown):
        file = state.files.get(sight.path)
        if file is None or not freshness.is_outdated(state, (sight,)):
            continue
        why = "removed" if file.absent else "changed"
        labelled = sight.version in file.told and (not file.absent or file.gone)
        yield Stale(
            "file", sight.path, seq, why, sight.version, file.version, "log", file.seq, labelled
        )


def believed_files(state: State) -> dict[str, tuple[str, str]]:
    """The files that a state's packets show texts of, as the log last heard of each."""
    found: dict[str, tuple[str, str]] = {}
    for _, sight in _sights(state, _shown(_refs(state))):
        file = state.files.get(sight.path)
        if file is not None:
            version = file.version or ("" if file.seq else sight.version)
            found[sight.path] = (version, "absent" if file.absent else "present")
    return found


def _still(found: list[Stale], now: dict[str, FileChanged]) -> Iterator[Stale]:
    """What the log calls stale, but for texts that are again as the file is."""
    for one in found:
        again = now.get(one.name)
        if again is None or again.state != "present" or again.version != one.shown:
            yield one
        elif one.labelled:
            yield replace(one, why="restored", now=again.version, by="workspace", cause=0)


def _in_workspace(
    state: State, shown: dict[int, int], now: dict[str, FileChanged]
) -> Iterator[Stale]:
    """Texts that hold by the log, of files that are others in the workspace."""
    for seq, sight in _sights(state, shown):
        file = now.get(sight.path)
        if file is None or file.state == "unreadable" or file.version == sight.version:
            continue
        if not freshness.is_outdated(state, (sight,)):
            why = "removed" if file.state == "absent" else "changed"
            yield Stale(
                "file", sight.path, seq, why, sight.version, file.version, "workspace", 0, False
            )


# --- items ----------------------------------------------------------------------------------------


def _items(session: Recorded, state: State, refs: list[Ref], as_of: int) -> Iterator[Stale]:
    """Items in the packet that a notice calls stale, or that the next one will."""
    notices = [(ref, True) for ref in refs if ref.form == "stale"]
    policy = session.policy_of(state)
    rules = rules_from(policy, session.window) if policy is not None else None
    if rules is not None and rules.selection is not None:
        measure = measure_of(rules.measure)
        coming = choose(
            state, rules.selection, UNBOUNDED, as_of, session.window, measure, Known()
        ).notices
        notices.extend((ref, False) for ref, _ in coming)
    there = {ref.seq for ref in refs if ref.form == "item"}
    for ref, labelled in notices:
        args = dict(ref.args)
        of = args.get("of")
        if not isinstance(of, int) or of not in there:
            continue
        content = session.window.event(of).content
        if not isinstance(content, ItemOffered):
            continue
        cause = session.window.event(ref.seq).content
        newer = text_of(cause.version, session.window) if isinstance(cause, ItemOffered) else ""
        yield Stale(
            "item",
            text_of(content.source_id, session.window),
            of,
            str(args["kind"]),
            text_of(content.version, session.window),
            newer if ref.seq != of else "",
            "log",
            ref.seq,
            labelled,
        )


# --- the world ------------------------------------------------------------------------------------


def _world(state: State) -> Iterator[Stale]:
    """Sections that the model was told of and that are others now."""
    told = {one.name: one for one in state.told if not one.removed}
    names = {(one.seq, max(1, one.part)): one for one in state.world}
    for ref, _ in world.news(state):
        value = names[ref.seq, ref.part]
        before = told.get(value.name)
        if before is not None:
            why = "removed" if value.removed else "changed"
            yield Stale(
                "world", value.name, before.seq, why, before.digest, value.digest, "log", ref.seq,
                False,
            )  # fmt: skip
