"""What looking into a recorded session finds: values, apart from those who look."""

from __future__ import annotations

import msgspec

from sawlog.builder.replay import Difference

Scores = tuple[tuple[str, int | None], ...]
"""Signals with their values, in the order in which they were compared; None: not recorded."""


class Version(msgspec.Struct, frozen=True):
    """A version of the same source that a packet shows: which event, in which form, as `entry`.

    `version` is as the source or the reading named it; empty where it did not.
    """

    seq: int
    part: int
    version: str
    form: str
    entry: int


class Preferred(msgspec.Struct, frozen=True):
    """What came in, or stayed, where an item fell out.

    `because` is what decided: the first signal in which the two differ (`mine` and `theirs` are
    its values, None where not recorded), or `required`, `order` (all signals equal), `fits` (it
    ranked lower and took less room), or the stage that settled it (`dedup`, `supersession`,
    `conflict`, …).
    """

    seq: int
    id: str
    source: str
    source_id: str
    version: str
    units: int
    because: str
    mine: int | None = 0
    theirs: int | None = 0
    scores: Scores = ()


class Ended(msgspec.Struct, frozen=True):
    """Why an item holds no longer.

    `kind` is `withdrawn`, `expired`, `superseded`, `overturned`, `replaced` (something newer was
    offered and found no room) or `file_changed`; `seq` the event that says so (0: the time that it
    was given, or none is named), `source` that event's. `text` is the reason of the withdrawal, the
    newer version or the path of the file.
    """

    kind: str
    seq: int = 0
    source: str = ""
    text: str = ""


class Why(msgspec.Struct, frozen=True):
    """What became of one part that holds the text, or of one item, for one step.

    `candidate`: it was in the log when the packet was built. `present`: the packet shows it, in
    `form` (`full`, `preview`, `stub`, `item`, …), as `entry` (-1: not in it). `reason` names where
    it fell out: `not_yet` (recorded later), `duplicate`, `no_call`, `block_cut`, `compacted`,
    `rewound`, `trimmed`, `outdated`, `other_form` (shown, without this text), `header_changed`,
    `not_shown`, `left_out: WHY` (in the packet, but this model could not be sent it), `forgotten`
    (as an item that no packet needed), `no_selection` (the policy weighs no items), `waiting`,
    `rejected`, `cancelled` (in the inbox), `once` (meant for one step), `told_anew` (a text of the
    world, told again as it is now), what made an item hold no longer (`ended`), or the policy's own
    word for an item. `stage` is where that was; `weighed_at` the step that it was weighed for, when
    that was an earlier one: what found no room waits for the next cut. `cause` puts it in one of
    five words, empty when it is present: `not_recalled`, `filtered`, `ranked_low`,
    `out_of_budget`, `lost_in_compression`.

    `seen_first` and `seen_until` are the first and the last step up to this one whose packet had
    the text, `out_at` the first after that without it (0: none), `changed_by` what took it out
    then. `version` is the content's digest (none of a secret), so that two readings of a file can
    be told apart; `named` the version as the source named it. `went_out` are the versions of the
    same source that the packet shows, `preferred` what came in instead.

    `ended` says why an item holds no longer, also one that the packet still shows, with a notice
    behind it that says so.

    `units` is what it takes, in the packet's measure, in `zone`; of an item, `zone_units` what the
    packet holds in that zone and `zone_bound` the most that its policy lets optional items take
    there (None: no bound, or no item); `scores` what it was ranked by,
    `note` what else was done to it, `labels` its authority, trust, retention and sensitivity, as
    far as it has them; `locator` where the whole of it is. `fetch` is the name by which the model
    could read what a compaction took away, with `read_output` and in this packet; empty for none.
    """

    seq: int
    part: int
    type: str
    source: str
    candidate: bool
    present: bool
    form: str
    entry: int
    reason: str
    seen_first: int
    seen_until: int
    out_at: int
    version: str
    excerpt: str
    id: str = ""
    stage: str = ""
    cause: str = ""
    changed_by: str = ""
    source_id: str = ""
    named: str = ""
    locator: str = ""
    zone: str = ""
    units: int = 0
    scores: Scores = ()
    note: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    went_out: tuple[Version, ...] = ()
    preferred: tuple[Preferred, ...] = ()
    ended: Ended | None = None
    weighed_at: int = 0
    zone_units: int | None = None
    zone_bound: int | None = None
    fetch: str = ""


class ZoneUse(msgspec.Struct, frozen=True):
    """Units that a zone takes of a packet, in the packet's measure; `bound` None: it has none.

    A zone may take more than its bound: what a step needs is never held by one.
    """

    zone: str
    units: int
    bound: int | None = None


class Moved(msgspec.Struct, frozen=True):
    """An entry that only one of two packets has: what it is, its units, and why it moved.

    `reason` is the stage's or the cut's word for it; `left_out: WHY` for what stays in the packet
    and could not be sent to this model; `as FORM` for what is shown in another form instead.
    """

    seq: int
    part: int
    form: str
    kind: str
    name: str
    units: int
    reason: str
    excerpt: str


class Differs(msgspec.Struct, frozen=True):
    """A step that would be otherwise.

    `refusal` is the builder's reason when there would be no packet (`message` and `needs` say
    more). `fell_out` and `came_in` are what differs for the first time at this step; `out` and
    `more` count all entries that only the recorded packet and only the other one has, with their
    units. `was` and `units` are what both packets take. `breaks` are the causes of breaks of the
    prefix that this run has at the step.
    """

    step: int
    built_at: int
    refusal: str
    message: str
    needs: tuple[str, ...]
    fell_out: tuple[Moved, ...]
    came_in: tuple[Moved, ...]
    out: int
    out_units: int
    more: int
    more_units: int
    was: int
    units: int
    breaks: tuple[str, ...]


class WhatIf(msgspec.Struct, frozen=True):
    """A session under other rules: the steps that would differ, in order.

    `policy`, `budget`, `reserve`, `api` and `model` are those of the newest step, the two in units
    (`budget` 0: no bound). `policies` and `budgets` are those of all steps, in the order in which
    they first came, for what is not otherwise stays as each step had it. `refused` counts steps
    that would have no packet, `same_bytes` those whose request would be the same byte for byte,
    `elsewhere` those that would go to another API or model, so that their bytes differ whatever
    they show; `largest` is the size of the largest recorded packet, in units.
    """

    session: str
    name: str
    policy: str
    budget: int
    api: str
    model: str
    steps: int
    refused: int
    same_bytes: int
    largest: int
    differing: tuple[Differs, ...]
    reserve: int = 0
    policies: tuple[str, ...] = ()
    budgets: tuple[int, ...] = ()
    elsewhere: int = 0


class Kept(msgspec.Struct, frozen=True):
    """How much of a packet the next one keeps at its beginning.

    `before` is the step of the packet, `step` that of the next. `size` and `kept` are bytes of the
    request's body, `entries` and `kept_entries` entries. `causes` name why not all stays, empty
    where it does: `compacted`, `rewound`, `trimmed`, `erased`, `block_cut`, `header_changed`,
    `model_changed`, `parameters_changed`, `provider_changed`, `profile_changed`; in an import also
    `answered` (a result took the place of its stand-in), `paired` (what came later stands behind
    its call) and `closing` (a fixed last message went). `units` are those of the entries that went,
    `bound` the bound items among them.
    """

    before: int
    step: int
    size: int
    kept: int
    entries: int
    kept_entries: int
    causes: tuple[str, ...]
    units: int
    bound: int

    @property
    def share(self) -> float:
        """The share of bytes that stays, 0 to 1."""
        return self.kept / self.size


class Stability(msgspec.Struct, frozen=True):
    """How stable a session's prefix is: each packet but the last, against the next one.

    `size` and `kept` are the sums of bytes, `causes` how often each was one.
    """

    session: str
    name: str
    steps: tuple[Kept, ...]
    size: int
    kept: int
    entries: int
    kept_entries: int
    causes: dict[str, int]

    @property
    def breaks(self) -> tuple[Kept, ...]:
        """Where not all of a packet stays."""
        return tuple(one for one in self.steps if one.causes)


class Stale(msgspec.Struct, frozen=True):
    """A text in a session's packets that holds no longer.

    `kind` is `file`, `item` or `world`; `name` the path, the source's id or the section. `seq` is
    the event whose text is shown. `why` is `changed`, `removed` (the file is gone), `restored`
    (it is again as shown, and a notice says otherwise), `withdrawn`, `expired`, `superseded`,
    `overturned` or `replaced` (by something newer); `shown` the version that
    the text is of, `now` the newest one, as far as they have names. `by` is `log` or `workspace`,
    whichever says so, and `cause` the event that does (0: none). `labelled`: a notice in the packet
    says so already.
    """

    kind: str
    name: str
    seq: int
    why: str
    shown: str
    now: str
    by: str
    cause: int
    labelled: bool


class Told(msgspec.Struct, frozen=True):
    """An entry in short, for people."""

    kind: str
    status: str
    name: str
    digest: str
    size: int
    excerpt: str


class Change(msgspec.Struct, frozen=True):
    """One run of entries in which two packets differ: `op` is `added`, `removed` or `changed`.

    `old` and `new` tell the entries: kind, name, digest, bytes and the first 120 characters.
    """

    op: str
    old_at: int
    new_at: int
    old: tuple[Told, ...]
    new: tuple[Told, ...]


class Report(msgspec.Struct, frozen=True):
    """What verify found of one session.

    `paths` says of each path `ok`, `absent` or `differs`. `chain` is `ok`, or `seq N: why`, or why
    alone where the directory is damaged; `bad_seq` the first damaged event (0: none). `blocked`
    names what the fold stopped at, if anything.
    """

    session: str
    name: str
    steps: int
    events: int
    paths: dict[str, str]
    differences: tuple[Difference, ...]
    chain: str
    bad_seq: int
    blocked: str = ""

    @property
    def sound(self) -> bool:
        """True when nothing differs and nothing is damaged."""
        return not self.differences and self.chain == "ok"
