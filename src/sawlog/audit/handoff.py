"""The hand-over: a session that any tool recorded, as a request that another provider continues.

Reading only: the packet that the session's next step would have, for any API, without the events
that a step appends. A message that the caller adds, and tools, stand in this one request and in no
log. Nothing is taken over from the requests before: neither parameters, which are another API's,
nor a model of another API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from sawlog.audit.handoffrequest import Handoff, Note, OpenCall
from sawlog.audit.inforce import rules_from
from sawlog.audit.reconstructing import absent_of
from sawlog.audit.recorded import Recorded
from sawlog.builder.build import Built, Cache, Sending, build
from sawlog.builder.contents import text_of
from sawlog.builder.draft import Refusal
from sawlog.builder.packet import Entry, Header, Request
from sawlog.builder.policy import AS_RECORDED, DEFAULT, Rules, header_refs
from sawlog.builder.profiles import Profile, profile_for, profile_of
from sawlog.builder.projector import fold
from sawlog.builder.render import RENDERERS, renderer_for, renderer_of
from sawlog.builder.render.source import members, string_value
from sawlog.builder.render.writing import blank
from sawlog.builder.state import Ref, State
from sawlog.store.content import TextPart
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import ConfigError, Refused
from sawlog.store.event import Event
from sawlog.store.events.conversation import MessageAssistant, MessageUser
from sawlog.store.events.steps import PolicySet
from sawlog.store.events.world import Tool, ToolsChanged
from sawlog.store.jsontext import source_of
from sawlog.store.text import BlobMissing
from sawlog.work.tools import declare_all
from sawlog.work.window import Window

_SPEAK = (
    "give the user's next message, which is not logged: say=TEXT, on the command line --say TEXT"
)


def wanted(api: str) -> tuple[tuple[str, str], ...]:
    """The parameters without which an API refuses every request, each with an example."""
    return RENDERERS[renderer_for(api)].wanted


def handoff(
    session: Recorded,
    api: str,
    model: str = "",
    *,
    say: str | None = None,
    tools: Iterable[Any] | None = None,
    window: int | None = None,
    reserve: int | None = None,
    profile: Profile | None = None,
    headers: Mapping[str, str] | None = None,
    allow_missing: bool = False,
    parameters: Mapping[str, Any] | None = None,
) -> Handoff:
    """The request that continues a session on `api`; see `Recorded.handoff`."""
    if say is not None and blank(say):
        raise ConfigError("an empty message says nothing: leave say out, or give a text")
    contents = Window(session.log, session.row)
    state, newest = _folded(session)
    sees = state.seq
    policy = session.policy_of(state)
    model = model or _model(session, state, policy, api, contents)
    used = profile or _profile(policy, api, model, contents)
    params = source_of(dict(parameters or {}), "parameters")
    sending = Sending(
        Header(api, model, params, used.named, renderer_of(used)),
        used,
        tuple(sorted((name.lower(), value) for name, value in (headers or {}).items())),
    )
    absent: tuple[str, ...] = ()
    if session.format:
        # The parameters are the caller's: those of the file would be another API's.
        absent = tuple(name for name in absent_of(state) if name != "request_parameters")
    not_offered: list[Note] = []
    if tools is not None:
        offered = ToolsChanged(tuple(one.tool for one in declare_all(tools)))
        state = _with(state, contents, "tools.changed", "harness", offered)
    elif session.format or (state.current is not None and state.current.api != api):
        state = _without_their_tools(state, contents, not_offered)
    if say is not None:
        spoken = MessageUser((TextPart(say),))
        state = _with(state, contents, "message.user", "user", spoken)
    rules = _rules(policy, contents, window, reserve, used.window)
    cache = Cache()
    _read_ahead(state, contents, cache)
    built = build(
        state,
        rules,
        sending,
        newest,
        contents,
        cache,
        allow_waiting=True,
        missing=absent,
        allow_missing=allow_missing,
    )
    if isinstance(built, Refusal):
        raise _refused(built, rules)
    _check_end(built)
    return Handoff(
        sees=sees,
        said=say,
        as_of=newest,
        header=built.header,
        refs=built.refs,
        entries=built.entries,
        missing=built.missing,
        undeclared=_undeclared(built.entries),
        open_calls=_open_calls(built.refs, built.entries),
        inbox=len(state.inbox),
        notes=(*not_offered, *_notes(built.request, built.refs, built.entries)),
        semantic=built.semantic,
        request=built.request,
        trace=built.trace,
    )


# --- what the log says ----------------------------------------------------------------------------


def _folded(session: Recorded) -> tuple[State, int]:
    """The state after the newest event, and the newest time among all of them."""
    state = State()
    newest = UNKNOWN_TIME
    for event in session.events():
        state = fold(state, event)
        newest = max(newest, event.occurred_at)
    return state, newest


def _with(
    state: State, contents: Window, type: str, source: str, content: MessageUser | ToolsChanged
) -> State:
    """The state as if one more event stood behind it, which none does."""
    event = Event(
        seq=state.seq + 1,
        id=f"{state.seq + 1:032x}",
        type=type,
        version=1,
        source=source,
        step=0,
        occurred_at=UNKNOWN_TIME,
        content=content,
        shown=True,
        ignorable=False,
    )
    contents.hold((event,))
    return fold(state, event)


def _without_their_tools(state: State, contents: Window, notes: list[Note]) -> State:
    """The state without tools that a provider runs itself, when it is not known to be this one.

    The declaration of such a tool is its provider's own; another one refuses the whole request.
    """
    seq = state.tools[0]
    content = contents.event(seq).content if seq else None
    if not isinstance(content, ToolsChanged):
        return state
    kept: list[Tool] = []
    for part, tool in enumerate(content.tools, 1):
        source = members(text_of(tool.source, contents)) or {}
        if string_value(source.get("type")) in ("", "function", "custom"):
            kept.append(tool)
        else:
            notes.append(Note(-1, seq, part, "tool", "", "left_out", "other_provider"))
    if len(kept) == len(content.tools):
        return state
    return _with(state, contents, "tools.changed", "harness", ToolsChanged(tuple(kept)))


def _model(
    session: Recorded, state: State, policy: PolicySet | None, api: str, contents: Window
) -> str:
    """The model that the session last went to on this API. Raises ConfigError: none is known."""
    current = state.current
    if current is not None and current.api == api:
        return text_of(current.model, contents)
    if current is None and policy is not None and policy.profile is not None:
        if profile_for(api, "")[0].named == policy.profile:
            model = ""
            for event in session.as_stored():
                if isinstance(event.content, MessageAssistant):
                    model = text_of(event.content.model, contents) or model
            if model:
                return model
    raise ConfigError(
        f"the session names no model of {api}: say which one is to go on, model=NAME, on the "
        "command line --model NAME"
    )


def _profile(policy: PolicySet | None, api: str, model: str, contents: Window) -> Profile:
    """The profile of the model: the caller's own, where the log has one for this API."""
    if policy is not None and policy.profile_text:
        own = profile_of(text_of(policy.profile_text, contents))
        if own.api == api:
            return own
    return profile_for(api, model)[0]


def _rules(
    policy: PolicySet | None,
    contents: Window,
    window: int | None,
    reserve: int | None,
    of_profile: int,
) -> Rules:
    """The rules in force, under the window that was given, else the model's, else the session's.

    What a foreign file shows has no window of its own; with one it is cut as the default cuts.
    """
    rules = Rules() if policy is None else rules_from(policy, contents)
    if window is None:
        window = of_profile or rules.window
    if window and rules.policy == AS_RECORDED:
        rules = replace(rules, policy=DEFAULT)
    return replace(rules, window=window, reserve=rules.reserve if reserve is None else reserve)


def _read_ahead(state: State, contents: Window, cache: Cache) -> None:
    """Read all that the packet may show in one go; what is not there `build` names."""
    try:
        news = chain(*cache.arrangement.entries(state))
        contents.prefetch([*header_refs(state), *state.sent, *news])
    except BlobMissing:
        return


# --- what is refused ------------------------------------------------------------------------------


def _refused(refusal: Refusal, rules: Rules) -> Refused:
    message = refusal.message
    if refusal.reason == "nothing_to_send":
        message = f"{message.partition(':')[0]}, so there is nothing to answer: {_SPEAK}"
    elif refusal.reason == "needs_context":
        message += "; allow_missing=True sends it all the same, and says so"
    return Refused(refusal.reason, message, refusal.needs, policy=str(rules.policy))


def _check_end(built: Built) -> None:
    """Raise Refused when the history ends with a paused reply that this provider did not pause."""
    last = len(built.entries) - 1
    if built.entries[last].authority != "assistant":
        return
    if any(at == last and what == "left_out" for at, what, _ in built.request.notes):
        raise Refused(
            "nothing_to_send",
            "the history ends with a reply that its own provider alone can go on with, so there is "
            f"nothing to answer: {_SPEAK}",
            ("input",),
            policy=str(built.rules.policy),
        )


# --- what is told ---------------------------------------------------------------------------------


def _notes(request: Request, refs: Sequence[Ref], entries: Sequence[Entry]) -> tuple[Note, ...]:
    found: list[Note] = []
    for at, what, why in request.notes:
        if at < 0:
            found.append(Note(at, 0, 0, "", "", what, why))
        else:
            ref, entry = refs[at], entries[at]
            found.append(Note(at, ref.seq, ref.part, entry.kind, entry.bound, what, why))
    return tuple(found)


def _undeclared(entries: Sequence[Entry]) -> tuple[str, ...]:
    offered = {entry.name for entry in entries if entry.kind == "tool"}
    called = [
        f"{entry.namespace}__{entry.name}" if entry.namespace else entry.name
        for entry in entries
        if entry.kind == "call"
    ]
    return tuple(name for name in dict.fromkeys(called) if name not in offered)


def _open_calls(refs: Sequence[Ref], entries: Sequence[Entry]) -> tuple[OpenCall, ...]:
    shown = list(zip(refs, entries, strict=True))
    names = {ref.seq: entry.name for ref, entry in shown if entry.kind == "call"}
    return tuple(
        OpenCall(ref.seq, names.get(ref.seq, ""), entry.status)
        for ref, entry in shown
        if ref.form == "synthetic"
    )
