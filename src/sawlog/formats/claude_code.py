"""Reads Claude Code transcripts: `<sessionId>.jsonl` and the sub-agent files beside it.

One file may hold several conversations: the session's own and, in old versions, sub-agents inline.
Newer ones keep each sub-agent in a file of its own. Each conversation is a session; children name
their parent.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from sawlog.formats.base import ForeignSession
from sawlog.formats.claude_notes import Notes
from sawlog.formats.claude_threads import Role, Thread
from sawlog.formats.lines import BOUNDS, Bounds, Line, Lines
from sawlog.store.errors import TooLarge, UnknownFormat

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_AGENT_FILE = "agent-"
_SUMMARISER = "acompact"
_SNIFFED = 100
_MAX_AGENTS = 10_000

_CHAINED = ("user", "assistant", "system", "progress", "attachment")
_FACTS = (
    "queue-operation",
    "mode",
    "permission-mode",
    "ai-title",
    "custom-title",
    "agent-name",
    "last-prompt",
    "pr-link",
)


def sniff(path: Path, bounds: Bounds = BOUNDS) -> bool:
    """True when one of the first records of a file is one of Claude Code's.

    Raises TooLarge when a bound is passed on the way; any other file that cannot be read is none.
    """
    try:
        for line in Lines(path, bounds):
            if line.value is not None and recognises(line.value):
                return True
            if line.position >= _SNIFFED:
                return False
    except UnknownFormat:
        return False  # read() says why, once somebody wants to read it as this format
    return False


def recognises(value: dict[str, Any]) -> bool:
    """True when an object is a record as Claude Code writes them."""
    kind = value.get("type")
    if kind in _CHAINED:
        return all(key in value for key in ("uuid", "parentUuid", "sessionId"))
    if kind == "summary":
        return "leafUuid" in value
    if kind == "file-history-snapshot":
        return "snapshot" in value
    return kind in _FACTS and "sessionId" in value


def read(path: Path, bounds: Bounds = BOUNDS) -> list[ForeignSession]:
    """The sessions of a file: its own, then sub-agents inline, then those in files beside it.

    Raises UnknownFormat when the file holds no whole record or none of this format, TooLarge when
    a bound is passed. A sub-agent file that holds nothing is named in the first one's anomalies.
    """
    found = _read_file(path, bounds, "")
    main = found[0]
    if main.parent:
        return found
    unread: list[str] = []
    for beside in _agent_files(path):
        try:
            found.extend(_read_file(beside, bounds, main.source_id))
        except UnknownFormat as error:
            unread.append(f"a sub-agent's file was not read: {error}")
    if unread:
        anomalies = (*main.counts.anomalies, *unread)
        counts = msgspec.structs.replace(main.counts, anomalies=anomalies)
        found[0] = msgspec.structs.replace(main, counts=counts)
    return found


def _read_file(path: Path, bounds: Bounds, owner: str) -> list[ForeignSession]:
    lines = Lines(path, bounds)
    head: list[Line] = []
    reader: _Reader | None = None
    for line in lines:
        if reader is not None:
            reader.take(line)
            continue
        head.append(line)
        if owner or _is_named(path) or _session_of(line, _MESSAGES):
            reader = _Reader(_identify(path, head, owner), head)
            head = []
    if reader is None:
        reader = _Reader(_identify(path, head, owner), head)
    if not reader.recognised:
        raise UnknownFormat(f"{path} holds no record of a Claude Code transcript", path=str(path))
    return reader.sessions(lines.anomalies)


def _agent_files(path: Path) -> list[Path]:
    # As Claude Code lays them out, and as an archive may that renamed the session's file.
    folders = (path.with_suffix("") / "subagents", path.parent / f"{path.stem}.subagents")
    files = [
        file
        for folder in folders
        if folder.is_dir()
        for file in sorted(folder.glob(f"{_AGENT_FILE}*.jsonl"))
        if file.is_file()
    ]
    if len(files) > _MAX_AGENTS:
        raise TooLarge(
            f"{path}: {len(files):,} sub-agent files stand beside it, the bound is {_MAX_AGENTS:,}",
            path=str(path),
        )
    return files


# --- whose file it is ----------------------------------------------------------------------------

_MESSAGES = ("user", "assistant")


class _Identity(msgspec.Struct, frozen=True):
    """The session that a file's records name, and the conversation that the file is.

    `guessed`: no record names a session, so the first record's digest stands for one.
    """

    session: str
    source_id: str
    role: Role
    parent: str
    guessed: bool


def _is_named(path: Path) -> bool:
    return _UUID.fullmatch(path.stem) is not None


def _identify(path: Path, head: list[Line], owner: str) -> _Identity:
    # The file's name decides, for records may keep the id of a session that was resumed. Without
    # such a name it is the first message's; while there is none, the first that any record has.
    above = path.parent.parent.name if path.parent.name == "subagents" else ""
    named = path.stem if _is_named(path) else above if _UUID.fullmatch(above) else ""
    session = (
        owner
        or named
        or next(filter(None, (_session_of(line, _MESSAGES) for line in head)), "")
        or next(filter(None, (_session_of(line) for line in head)), "")
    )
    guessed = not session
    session = session or f"record-{head[0].digest[:32]}"
    agent = _agent_of(path, head)
    if not agent:
        return _Identity(session, session, "main", "", guessed)
    role: Role = "summariser" if agent.startswith(_SUMMARISER) else "agent"
    return _Identity(session, f"{session}/{agent}", role, session, guessed)


def _agent_of(path: Path, head: list[Line]) -> str:
    if path.stem.startswith(_AGENT_FILE):
        return path.stem.removeprefix(_AGENT_FILE)
    if _is_named(path):
        return ""
    for line in head:
        value = line.value or {}
        if "isSidechain" in value:
            agent = value.get("agentId")
            return agent if value["isSidechain"] is True and isinstance(agent, str) else ""
    return ""


def _session_of(line: Line, kinds: tuple[str, ...] = ()) -> str:
    value = line.value or {}
    session = value.get("sessionId")
    if not isinstance(session, str) or (kinds and value.get("type") not in kinds):
        return ""
    return session


# --- its conversations ---------------------------------------------------------------------------


class _Reader:
    """Hands each record of a file to its conversation."""

    def __init__(self, identity: _Identity, head: list[Line]) -> None:
        self.recognised = False
        self._identity = identity
        self._notes = Notes()
        self._own = Thread(identity.source_id, identity.role, self._notes)
        self._inline: dict[str, Thread] = {}
        self._of: dict[str, Thread] = {}
        self._latest: Thread | None = None
        if identity.guessed:
            self._notes.say("no record names its session; its first record's digest stands for it")
        if identity.role == "summariser":
            self._notes.say(
                "this is the run that wrote a compaction's summary, not a sub-agent of the "
                "conversation; the history that it read is in its parent's file"
            )
        for line in head:
            self.take(line)

    def take(self, line: Line) -> None:
        """Take in the next record."""
        value = line.value
        if value is None:
            self._own.add(line)
            return
        self.recognised = self.recognised or recognises(value)
        session = _session_of(line)
        if session and session != self._identity.session and not self._identity.guessed:
            self._notes.add(f"a record names another session, {session[:64]}", line.position)
        if self._identity.role == "main" and value.get("isSidechain") is True:
            thread = self._sidechain(value, line.position)
            self._own.aside(line, value)
            thread.add(line)
        else:
            self._own.add(line)

    def sessions(self, oddities: list[str]) -> list[ForeignSession]:
        """The sessions of the file, its own first, at its end."""
        for sentence in oddities:
            self._notes.say(sentence)
        identity = self._identity
        # The run that wrote a summary read records of the session's own file.
        apart = identity.role == "summariser"
        own = self._own.session(identity.parent, lambda uuid: apart)
        inline = [
            thread.session(identity.source_id, self._own.holds) for thread in self._inline.values()
        ]
        return [own, *inline]

    def _sidechain(self, value: dict[str, Any], position: int) -> Thread:
        # By agent where the record names one; else by its parent; a root begins a new one, and so
        # does a record that hangs on the session's own chain.
        agent, uuid, parent = (value.get(key) for key in ("agentId", "uuid", "parentUuid"))
        thread: Thread | None = None
        name = agent if isinstance(agent, str) else ""
        if name:
            thread = self._inline.get(name)
        elif isinstance(parent, str):
            thread = self._of.get(parent)
            if thread is None and not self._own.holds(parent):
                thread = self._latest
        if thread is None:
            # A root may stand in the file twice: then its conversation is there already.
            name = name or (uuid if isinstance(uuid, str) else f"record-{position}")
            thread = self._inline.get(name)
        if thread is None:
            thread = Thread(f"{self._identity.source_id}/{name}", "agent", Notes())
            self._inline[name] = thread
        if isinstance(uuid, str):
            self._of[uuid] = thread
        self._latest = thread
        return thread
