"""What looking into a recorded session finds: values, apart from those who look."""

from __future__ import annotations

import msgspec

from sawlog.builder.replay import Difference


class Why(msgspec.Struct, frozen=True):
    """What became of one part that holds the text, for one step.

    `candidate`: it was in the log when the packet was built. `present`: the packet shows it, in
    `form` (`full`, `preview`, `stub`, …), as `entry` (-1: not in it). `reason` names where it fell
    out: `not_yet` (recorded later), `duplicate`, `no_call`, `block_cut`, `compacted`, `rewound`,
    `trimmed`, `other_form` (shown, without this text), `header_changed`, `not_shown`,
    `left_out: WHY` (in the packet, but this model could not be sent it). `seen_first`
    and `seen_until` are the first and the last step up to this one whose packet had the text,
    `out_at` the first after that without it (0: none). `version` is the content's digest, so that
    two readings of a file can be told apart.
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
