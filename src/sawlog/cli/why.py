"""Audit: why a text or an item was or was not seen at a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sawlog.cli import place
from sawlog.cli.options import Json, StepName
from sawlog.cli.output import first_line, say, visible, write_json

if TYPE_CHECKING:
    from sawlog.audit.findings import Ended, Preferred, Scores, Why

_REASONS = {
    "not_yet": "it was recorded only later",
    "duplicate": "it is a second result of a call",
    "no_call": "it is a result that no call asked for",
    "copy": "it is a compaction's own copy",
    "block_cut": "the policy's block cut left it behind",
    "compacted": "a compaction replaced it",
    "edited": "the program that built the requests no longer repeats it",
    "not_repeated": "the request does not say it in these words",
    "rewound": "the history was rewound past it",
    "trimmed": "the result was trimmed",
    "outdated": "its file changed, and a stand-in says so in its place",
    "other_form": "its event is shown in a form without this text",
    "header_changed": "a later system text or tool list took its place",
    "not_shown": "no packet up to here showed it",
    "forgotten": "too many newer items were offered, and no packet showed it",
    "no_selection": "the policy shows the history alone and weighs no items",
    "not_installed": "the policy that weighed it is not installed here",
    "waiting": "it waits in the inbox",
    "rejected": "it was rejected when a step claimed the inbox",
    "cancelled": "it was taken out of the inbox again",
    "claimed": "it left the inbox as a message of its own",
    "once": "it was meant for one step, and a cut came",
    "told_anew": "a cut came, and it is told again as it is now",
    "waits_for_cut": "it waits: between cuts only what is new is weighed",
}
"""Reasons of the log and its history; those of a policy's stages are the policy's own words."""

_ENDED = {
    "withdrawn": "withdrawn",
    "expired": "expired",
    "superseded": "superseded",
    "overturned": "a later observation says otherwise",
    "replaced": "something newer was offered",
    "file_changed": "its file changed",
}
"""What makes an item hold no longer."""

_CAUSES = {
    "not_recalled": "not recalled",
    "filtered": "filtered",
    "ranked_low": "ranked low",
    "out_of_budget": "out of budget",
    "lost_in_compression": "lost in compression",
}

_LINES = 5
"""Lines of an excerpt that are shown."""

_DECIDED = {
    "required": "the step needs it",
    "order": "all signals are equal, and it stands first in order",
    "fits": "it ranked lower and is small enough for the room that was left",
    "coverage": "it covers the topic",
    "dedup": "it is the same text",
    "supersession": "it is a newer version",
    "conflict": "it contradicts it and weighs more",
    "freshness": "it is a later observation of the same thing",
}


def why(
    context: typer.Context,
    name: StepName,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="A text to look for, as it stands; or an item: its source's id."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Say whether the model saw a text or an item at a step, and where it fell out if not.

    TEXT is a text as it stands in the log, the id of an item's source, or the id of an event. Every
    part of the log that it means is listed: whether it was a candidate for the packet; whether the
    packet shows it and in which form, and otherwise at which stage it fell out, for what reason and
    since which step; what was preferred and by which signal, with both values; which version of the
    same source went out; what a cut or a compaction did to it. Each reason is one of five causes:
    not recalled, filtered, ranked low, out of budget, lost in compression.

    All of it comes from the log and from the trace, which is computed again; nothing is guessed.
    Two readings of one file can be told apart by the digest of their content.

    \b
      sawlog why fix-refund@4 'expires_at'
      sawlog why fix-refund@4 docs/refunds.md      an item, by the id of its source
    """
    from sawlog.audit.explaining import why as ask
    from sawlog.store.errors import ConfigError

    if not text:
        raise ConfigError("the text to look for is empty: write some of it")
    log = place.auditing(context)
    session, step = place.split_step(name)
    recorded = log.read(session)
    packet = recorded.packet(step)
    found = ask(recorded, step, text)
    if as_json:
        import msgspec

        parts = msgspec.to_builtins(found)
        write_json(
            {"session": recorded.id, "step": step, "origin": packet.origin, "text": text}
            | {"seen": any(one.present for one in found)}
            | {"answer": _answer(found), "parts": parts}
        )
        return
    seen = sum(one.present for one in found)
    where = f"step {step} of {visible(recorded.name or recorded.id)}"
    if packet.origin != "built":
        where += f" ({packet.origin})"
    if not found:
        say(f"{where}: not recalled: the log does not hold this text at all")
        return
    say(f"{where}: seen in {seen} of the {len(found)} places that hold it")
    for one in found:
        _print(one)


def _answer(found: list[Why]) -> str:
    """The whole answer in one word: `seen`, or the cause that lies nearest to being seen."""
    if any(one.present for one in found):
        return "seen"
    causes = {one.cause for one in found}
    order = ("ranked_low", "out_of_budget", "lost_in_compression", "filtered", "not_recalled")
    return next((cause for cause in order if cause in causes), "not_recalled")


def _print(one: Why) -> None:
    origin = visible(one.source)
    say(f"\n  event {one.seq} part {one.part}  {one.type}  {origin}".rstrip())
    if one.source_id:
        named = f" version {visible(one.named)}" if one.named else ""
        at = f" at {visible(one.locator)}" if one.locator not in ("", one.source_id) else ""
        say(f"    {visible(one.source_id)}{named}{at}")
    say(f"    {_verdict(one)}")
    if one.changed_by and one.changed_by != one.reason:
        say(f"    at step {one.out_at}: {_REASONS.get(one.changed_by, one.changed_by)}")
    if one.fetch:
        say(f"    the model can read it: read_output fetches {one.fetch}")
    if one.scores:
        say(f"    ranked by {_scores(one.scores)}")
    if one.note:
        say(f"    {visible(one.note)}")
    for other in one.preferred:
        say(f"    instead: {_preferred(other, one.stage)}")
    for version in one.went_out:
        if version.seq != one.seq:
            which = f"version {visible(version.version)}" if version.version else "a version"
            say(f"    went out: {which} of it, event {version.seq}, entry {version.entry}")
    place_ = f" in zone {one.zone}" if one.zone else ""
    if one.units:
        say(f"    {one.units:,} units{place_}{_use(one)}")
    if one.version:
        say(f"    version sha256:{one.version}")
    if one.excerpt:
        _print_excerpt(one.excerpt)


def _use(one: Why) -> str:
    """What the packet holds in the zone of an item, where that is bounded."""
    if one.zone_units is None or one.zone_bound is None:
        return ""
    return f", of which the packet holds {one.zone_units:,} of at most {one.zone_bound:,}"


def _print_excerpt(text: str) -> None:
    """The lines that hold the text, the first and the last of which may be cut."""
    lines = [line for line in text.split("\n") if line.strip()]
    for line in lines[:_LINES]:
        say(f"    … {first_line(line)} …")
    if len(lines) > _LINES:
        say(f"    … {len(lines) - _LINES:,} more lines")


def _verdict(one: Why) -> str:
    if one.present:
        told = f"seen, as {one.form}, entry {one.entry}"
        return told if one.ended is None else f"{told}; a notice says: {_ended(one.ended)}"
    told = "not seen: "
    if one.out_at:
        told += f"out since step {one.out_at}: "
    if one.ended is not None and one.ended.kind == one.reason:
        told += _ended(one.ended)
    else:
        stage = f" at stage {one.stage}" if one.reason not in _REASONS and one.stage else ""
        told += f"{_REASONS.get(one.reason, one.reason)}{stage}"
    if one.weighed_at:
        told += f", as step {one.weighed_at} weighed it; since then it waits for a cut"
    if one.seen_until:
        span = f"{one.seen_first} to {one.seen_until}"
        single = one.seen_first == one.seen_until
        told += f"; the packet of step {one.seen_until}" if single else f"; packets of steps {span}"
        told += " had it"
    return f"{told} ({_CAUSES[one.cause]})" if one.cause in _CAUSES else told


def _ended(ended: Ended) -> str:
    """What made an item hold no longer, and which event says so."""
    told = _ENDED.get(ended.kind, ended.kind)
    what = visible(ended.text)
    event = f"event {ended.seq}" if ended.seq else ""
    match ended.kind:
        case "superseded" if ended.seq:
            version = f"version {what}, " if what else ""
            return f"{told} by {version}{event}"
        case "file_changed":
            return f"{told}: {what}" + (f", {event}" if event else "")
        case "withdrawn":
            told += f" ({what})" if what else ""
        case _:
            pass
    return f"{told}, {event}" if event else told


def _scores(scores: Scores) -> str:
    return ", ".join(f"{name} {_value(name, value)}" for name, value in scores)


def _value(signal: str, value: int | None) -> str:
    """A signal's value: one that its source did not give is said so; a time as a date."""
    if value is None:
        return "no date" if signal == "freshness" else "not given"
    if signal != "freshness":
        return str(value)
    from datetime import UTC, datetime, timedelta

    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    except OverflowError:
        return str(value)
    return at.date().isoformat() if not value % 86_400_000_000 else at.isoformat()


def _preferred(other: Preferred, stage: str) -> str:
    version = f" version {visible(other.version)}" if other.version else ""
    told = f"{visible(other.source_id)}{version} (event {other.seq})"
    if other.because in _DECIDED and other.because != "freshness":
        return f"{told}: {_DECIDED[other.because]}"
    if other.because == "freshness" == stage:
        return f"{told}: {_DECIDED['freshness']}"
    theirs, mine = (_value(other.because, one) for one in (other.theirs, other.mine))
    return f"{told}: {other.because} {theirs} against {mine}"
