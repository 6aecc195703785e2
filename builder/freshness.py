"""Freshness: which text of a file that packets show is out of date, and whether that was said.

What was read says which version it saw; what a file is now comes from `file.changed`, or from a
newer read. Change and change back cancel out; a file that cannot be read says nothing of its
content, and one that is gone makes all that was read of it out of date.

A notice speaks of all texts above it. So what the newest notice behind a text said of it is its
label, and a file needs another notice when the label of any of its texts is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from sawlog.builder.facts import File, Seen, Sight
from sawlog.builder.state import Args, News, Ref, State
from sawlog.builder.vec import Index
from sawlog.store.events.world import FileChanged, FileObserved, Saw

_WHOLE = ("full", "preview", "late", "item")
"""Forms that show the text of a result, an observation or an item."""

_ASIDE = ("duplicate", "no_call", "copy")
"""Flags of news that no packet shows."""

UNTIL_CHANGE = "until-file-change"


# --- as events arrive ----------------------------------------------------------------------------


def saw(state: State, seq: int, seen: Iterable[Saw], since: int = 0) -> State:
    """The state after event `seq` showed text of files.

    `since` is when the call that looked at them was started, 0 when no call did. A read that may
    be from before the newest word on a file does not say what the file is now.
    """
    since = since or seq
    sights: dict[Sight, None] = {}
    for one in seen:
        # No file has a path so long that it is no string, and no packet could say it.
        if isinstance(one.path, str) and one.holds == UNTIL_CHANGE:
            sights[Sight(one.path, one.version, since)] = None
    for sight in sights:
        file = state.files.get(sight.path) or File(sight.path, 0, "")
        if file.heard < since:
            known = file.version == sight.version and not file.absent
            if sight.version and not known:
                file = replace(file, seq=seq, version=sight.version, absent=False, heard=seq)
            elif file.absent:
                file = replace(file, seq=since, version="", absent=False, heard=since)
            else:
                file = replace(file, heard=since)
        state = _with(state, file)
    return shows(state, seq, sights)


def shows(state: State, seq: int, sights: Iterable[Sight]) -> State:
    """The state after event `seq` showed these texts of files."""
    fresh = tuple(dict.fromkeys((*(state.sights.get(seq) or ()), *sights)))
    if not fresh:
        return state
    state = replace(state, sights=state.sights.set(seq, fresh))
    for sight in sights:
        file = state.files.get(sight.path) or File(sight.path, 0, "")
        state = _with(state, _opened(file, sight, seq))
    return state


def _opened(file: File, sight: Sight, seq: int) -> File:
    """The file with one more text that no notice speaks of."""
    groups = list(file.open)
    for at, group in enumerate(groups):
        # Of texts without a version only those of one side of a change are of one.
        if group.version == sight.version and (sight.version or not _is_stale(file, group)):
            since, last = max(group.since, sight.since), max(group.last, seq)
            groups[at] = Seen(group.version, since, min(group.first, seq), last)
            return replace(file, open=tuple(groups))
    return replace(file, open=(*groups, Seen(sight.version, sight.since, seq, seq)))


def observed(state: State, seq: int, content: FileObserved) -> State:
    """The state after the harness saw a file, or learned what a result had seen of it."""
    if content.of:
        one = next((one for one in state.news if one.id == content.of), None)
        if one is None or one.flag in _ASIDE:
            return state
        seen = Saw(content.path, content.range, content.version, content.holds)
        return saw(state, one.seq, (seen,), one.call)
    return _now(state, seq, content.path, content.version, content.state)


def changed(state: State, seq: int, content: FileChanged) -> State:
    """The state after a file changed."""
    return _now(state, seq, content.path, content.version, content.state)


def _now(state: State, seq: int, path: object, version: str, condition: str) -> State:
    if not isinstance(path, str) or condition == "unreadable":
        return state
    file = state.files.get(path) or File(path, 0, "")
    absent = condition == "absent"
    version = "" if absent else version
    if file.seq and (file.version, file.absent) == (version, absent) and (version or absent):
        return replace(state, files=state.files.set(path, replace(file, heard=seq)))
    return _with(state, replace(file, seq=seq, version=version, absent=absent, heard=seq))


def _with(state: State, file: File) -> State:
    if not (file.open or file.told) or file.path in state.dirty:
        return replace(state, files=state.files.set(file.path, file))
    dirty = (*state.dirty, file.path)
    return replace(state, files=state.files.set(file.path, file), dirty=dirty)


# --- what is out of date -------------------------------------------------------------------------


def _is_stale(file: File, seen: Seen) -> bool:
    """True when texts are of another version than the file's."""
    if not file.seq:
        return False
    if file.absent:
        return True
    if seen.version:
        return seen.version != file.version
    return seen.since < file.seq


def is_outdated(state: State, sights: Iterable[Sight]) -> bool:
    """True when one of these texts is known to be of another version, or of a file that is gone."""
    for one in sights:
        file = state.files.get(one.path)
        if file is not None and _is_stale(file, Seen(one.version, one.since, 0, 0)):
            return True
    return False


def stale_paths(state: State) -> dict[int, str]:
    """Shown events whose text of a file is out of date: seq to path. One pass over the window."""
    found: dict[int, str] = {}
    for seq, sights in dict(state.sights.items()).items():
        path = next((one.path for one in sights if is_outdated(state, (one,))), None)
        if path is not None:
            found[seq] = path
    return found


# --- notices -------------------------------------------------------------------------------------


def news(state: State) -> list[tuple[Ref, str]]:
    """Notices that the next packet needs: text it shows is out of date, or is right again."""
    out: list[tuple[Ref, str]] = []
    for path in state.dirty:
        file = state.files.get(path)
        kind = "" if file is None else _wrong(file, state.sent_at)
        if file is not None and kind:
            args: Args = (("kind", kind), ("path", path), ("version", file.version))
            why = kind if kind == "restored" else f"stale_{kind}"
            out.append((Ref("history", file.seq, 1, "stale", 1, args), why))
    return out


def _wrong(file: File, sent_at: int) -> str:
    """What a notice has to say of a file's texts; empty when their labels are right.

    `sent_at` is where the last packet ends: what came since stands behind what it shows, and in
    what order among itself only the packet says.
    """
    stale = [one for one in file.open if _is_stale(file, one)]
    again = bool(file.version) and not file.absent and file.version in file.told
    if not (file.open or file.told):
        return ""
    if file.absent:
        return "" if file.gone and not stale else "removed"
    if not stale and not again:
        # A text that was read since says by itself that the file is there.
        return "back" if file.gone and not file.open else ""
    right = [one for one in file.open if not _is_stale(file, one)]
    if again:
        return "mixed" if stale or len(file.told) > 1 else "restored"
    if not right:
        return "changed"
    newer = min(one.first for one in right) > sent_at >= max(one.last for one in stale)
    return "newer" if newer else "mixed"


def labelled(state: State, refs: Iterable[Ref]) -> State:
    """The state after the notices among these refs were shown, behind all texts of their files."""
    for ref in refs:
        args = dict(ref.args)
        path = args.get("path")
        if ref.form != "stale" or not isinstance(path, str):
            continue
        file = state.files.get(path)
        if file is not None:
            new = _labelled(file, ref)
            state = replace(state, files=state.files.set(path, new))
    return state


def _labelled(file: File, ref: Ref) -> File:
    """The file whose texts have the labels that a notice gave them, when it was shown."""
    args = dict(ref.args)
    then = replace(
        file, seq=ref.seq, version=str(args["version"]), absent=args["kind"] == "removed"
    )
    stale = tuple(one for one in file.open if _is_stale(then, one))
    told = dict.fromkeys((*file.told, *(one.version for one in stale)))
    still = tuple(one for one in file.open if one not in stale)
    if then.version in told and then.version and not then.absent:
        del told[then.version]
        still = (Seen(then.version, 0, 0, 0), *still)
    return replace(file, open=still, told=tuple(told), gone=then.absent)


def still_dirty(state: State) -> tuple[str, ...]:
    """The paths of which something has to be said that no notice says yet."""
    files = ((path, state.files.get(path)) for path in state.dirty)
    return tuple(path for path, file in files if file is not None and _wrong(file, 0))


# --- cuts ----------------------------------------------------------------------------------------


def rebuilt(state: State, refs: Iterable[Ref], gone: frozenset[int] = frozenset()) -> State:
    """The state in which packets show these refs, then the news; results among `gone` as stubs.

    Texts and labels are counted anew, in packet order. It costs one pass over the window.
    """
    sights = dict(state.sights.items())
    files = {
        path: replace(file, open=(), told=(), gone=False)
        for path, file in dict(state.files.items()).items()
    }
    kept: dict[int, tuple[Sight, ...]] = {}

    def text(seq: int, *, late: bool) -> None:
        if seq in kept or seq not in sights or (seq in gone and not late):
            return
        kept[seq] = sights[seq]
        for one in sights[seq]:
            file = files.get(one.path) or File(one.path, 0, "")
            files[one.path] = _opened(file, one, seq)

    for ref in refs:
        if ref.form in _WHOLE:
            text(ref.seq, late=ref.form == "late")
        elif ref.form == "stale":
            path = dict(ref.args).get("path")
            if isinstance(path, str) and path in files:
                files[path] = _labelled(files[path], ref)
    for one in state.news:
        if _is_shown(one):
            text(one.seq, late=one.flag == "late")
    dirty = tuple(path for path, file in files.items() if file.open or file.told)
    state = replace(state, files=Index(files.items()), sights=Index(kept.items()), dirty=dirty)
    return replace(state, dirty=still_dirty(state))


def _is_shown(one: News) -> bool:
    return one.flag not in _ASIDE and not one.erased
