"""Freshness: which text of a file that packets show is out of date, and whether that was said.

What was read says which version it saw; what a file is now comes from `file.changed`, or from a
newer read. Change and change back cancel out; a file that cannot be read says nothing of its
content, and one that is gone makes all that was read of it out of date.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from sawlog.builder.facts import File, Seen
from sawlog.builder.state import Args, Ref, State
from sawlog.builder.vec import Index
from sawlog.store.events.world import FileChanged, FileObserved, Saw

WHOLE = ("full", "preview", "late")
"""Forms that show the text of a result or an observation."""


def saw(state: State, seq: int, seen: Iterable[Saw]) -> State:
    """The state after event `seq` showed text of files."""
    for one in seen:
        if not isinstance(one.path, str):
            continue  # no file has a path of that length, and no packet could say so
        file = state.files.get(one.path) or File(one.path, 0, "")
        holds = one.holds != "until-file-change"
        shown = (*file.seen, Seen(seq, one.version, holds))
        if one.version and not holds:
            newer = one.version != file.version or file.absent
            file = File(one.path, seq if newer else file.seq, one.version, False, newer, shown)
        else:
            file = replace(file, seen=shown)
        state = _with(state, file)
    return state


def shows(state: State, seq: int, seen: Iterable[tuple[str, str]]) -> State:
    """The state after event `seq` showed text of files as they were in these versions."""
    for path, version in seen:
        file = state.files.get(path) or File(path, 0, "")
        state = _with(state, replace(file, seen=(*file.seen, Seen(seq, version))))
    return state


def is_outdated(state: State, seen: Iterable[tuple[str, str]]) -> bool:
    """True when one of these files is known to be of another version, or gone."""
    for path, version in seen:
        file = state.files.get(path)
        if file is not None and file.seq and (file.absent or file.version != version):
            return True
    return False


def observed(state: State, seq: int, content: FileObserved) -> State:
    """The state after the harness saw a file, or learned what a result had seen of it."""
    if content.of:
        of = next((one.seq for one in state.news if one.id == content.of), 0)
        if not of:
            return state
        return saw(state, of, (Saw(content.path, content.range, content.version, content.holds),))
    return _now(state, seq, content.path, content.version, content.state)


def changed(state: State, seq: int, content: FileChanged) -> State:
    """The state after a file changed."""
    return _now(state, seq, content.path, content.version, content.state)


def _now(state: State, seq: int, path: object, version: str, condition: str) -> State:
    if not isinstance(path, str) or condition == "unreadable":
        return state
    file = state.files.get(path) or File(path, 0, "")
    absent = condition == "absent"
    if (file.version, file.absent) == (version, absent) and file.seq and version:
        return state
    return _with(state, replace(file, seq=seq, version=version, absent=absent, observed=False))


def _with(state: State, file: File) -> State:
    dirty = state.dirty if file.path in state.dirty else (*state.dirty, file.path)
    return replace(state, files=state.files.set(file.path, file), dirty=dirty)


def is_stale(file: File, seen: Seen) -> bool:
    """True when what was read is of another version than the file's."""
    if seen.holds or seen.seq == file.seq:
        return False
    if file.absent:
        return True
    if seen.version and file.version:
        return seen.version != file.version
    return file.seq > seen.seq


def news(state: State) -> list[tuple[Ref, str]]:
    """Notices that the next packet needs: text it shows is out of date, or is right again."""
    out: list[tuple[Ref, str]] = []
    noted = frozenset(state.noted)
    for path in state.dirty:
        file = state.files.get(path)
        if file is None:
            continue
        stale = [one.seq for one in file.seen if is_stale(file, one) and one.seq not in noted]
        right = [one.seq for one in file.seen if not is_stale(file, one) and one.seq in noted]
        if stale:
            kind = "removed" if file.absent else "newer" if file.observed else "changed"
            out.append((_notice(file, kind, stale), f"stale_{kind}"))
        if right:
            out.append((_notice(file, "restored", right), "restored"))
    return out


def _notice(file: File, kind: str, of: Iterable[int]) -> Ref:
    args: Args = (("kind", kind), ("path", file.path), *(("of", seq) for seq in of))
    return Ref("history", file.seq, 1, "stale", 1, args)


def noted(before: Iterable[int], refs: Iterable[Ref]) -> tuple[int, ...]:
    """Seqs of shown events that a notice calls out of date, after these refs came."""
    found = set(before)
    for ref in refs:
        if ref.form == "stale":
            right = ("kind", "restored") in ref.args
            for name, value in ref.args:
                if name == "of" and isinstance(value, int):
                    found.discard(value) if right else found.add(value)
        elif ref.form == "outdated":
            found.add(ref.seq)
    return tuple(sorted(found))


def still_dirty(state: State) -> tuple[str, ...]:
    """The paths of which something has to be said that no notice says yet."""
    paths = {dict(ref.args)["path"] for ref, _ in news(state)}
    return tuple(path for path in state.dirty if path in paths)


def shortened(state: State, shown: frozenset[int]) -> State:
    """The state in which only these events still show text of files."""
    files: list[tuple[str, File]] = []
    dirty: list[str] = []
    for path, newest in _newest(state.files):
        seen = tuple(one for one in newest.seen if one.seq in shown)
        files.append((path, replace(newest, seen=seen)))
        if seen:
            dirty.append(path)
    return replace(state, files=Index(files), dirty=tuple(dirty))


def without(state: State, gone: frozenset[int]) -> State:
    """The state in which these events no longer show text of files."""
    for path, file in _newest(state.files):
        seen = tuple(one for one in file.seen if one.seq not in gone)
        if len(seen) < len(file.seen):
            state = replace(state, files=state.files.set(path, replace(file, seen=seen)))
    return state


def _newest(files: Index[str, File]) -> list[tuple[str, File]]:
    return list(dict(files.items()).items())


def stale_paths(state: State) -> dict[int, str]:
    """Shown events whose text of a file is out of date: seq to path. One pass over the files."""
    return {
        one.seq: file.path
        for _, file in _newest(state.files)
        for one in file.seen
        if is_stale(file, one)
    }
