"""Every error that sawlog raises, in one tree.

SawlogError
├── StoreError                 the log or its database
│   ├── Conflict               another append came first, or a batch is half known
│   │   └── StalePlan          the log moved on since a recovery was planned
│   ├── Leased                 another owner drives this session
│   ├── Fenced                 this lease was taken over
│   ├── NotEntered             a session is to be driven by a handle that has no lease
│   ├── InvalidEvent           an event that cannot be stored as it is
│   ├── Busy                   the database stayed locked past the bound
│   ├── StoreFull              no room on the medium
│   ├── ReadOnly               the medium or the handle cannot be written
│   ├── OutcomeUnknown         the connection was lost while committing
│   ├── Damaged                stored bytes do not fit their digests
│   │   └── Away               they are in an object store that does not give them
│   ├── NoStore                there is no sawlog store at that place
│   ├── NoSession              no session of that name or id
│   ├── WrongPosition          a follower's position from another store
│   ├── OldSchema              the store waits for a migration
│   └── NewerSchema            the store was written by a newer sawlog
├── FormatError                a foreign file that cannot be read
│   ├── UnknownFormat          it is none of the known formats
│   └── TooLarge               a line, a nesting or a count is above its bound
├── BuildError                 a step that cannot be built or replayed
│   ├── Refused                the builder's named refusal, as an exception
│   ├── NoStep                 no step of that number
│   ├── StepEnded              a step that has its end is to be sent or answered
│   └── UnknownNumber          a fold, form, renderer, profile or policy that is not installed
├── InvalidItem                a source, an item or a task for selection that breaks its rules
├── OutsideRoot                a path, or a link on it, that leads out of its root
├── ToolError                  a tool call used in a way that the log does not allow
│   ├── CallDenied             a call that was denied and does not run
│   ├── EffectUnknown          what may have been done is not done again by inference
│   └── CredentialUnavailable  a secret that a tool needs and nobody gives
├── NotCompacted               a compaction that leaves packets as they were
├── InvalidArguments           what a model wrote for a call does not fit its tool
├── AttemptFailed              the provider refused, or the sending broke
└── ConfigError                an option or a setting that means nothing here
    └── InvalidPolicy          a policy document that does not say a policy

A message says what is wrong and what mends it; facts are fields.
"""

from __future__ import annotations

_QUOTED = 100  # characters of a value that a message repeats


def quoted(value: object) -> str:
    """A caller's value as a message repeats it: of a longer text its beginning and its length."""
    if isinstance(value, str | bytes) and len(value) > _QUOTED:
        kind = "characters" if isinstance(value, str) else "bytes"
        return f"{value[:_QUOTED]!r}… ({len(value)} {kind})"
    shown = repr(value)
    return shown if len(shown) <= 2 * _QUOTED else f"{shown[: 2 * _QUOTED]}…"


class SawlogError(Exception):
    """The root of the tree: catch it to catch all that sawlog raises on purpose."""


class StoreError(SawlogError):
    """Raised when the log or its database refuses."""


class Conflict(StoreError):
    """Raised when the head is not where the caller believed, or a batch is only half known."""

    def __init__(
        self, message: str, *, expected: int | None = None, actual: int | None = None
    ) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual


class StalePlan(Conflict):
    """Raised when the log moved on since a recovery was planned: plan it again, it reads only."""


class Leased(StoreError):
    """Raised when a session is driven by another owner whose lease is live."""

    def __init__(self, message: str, *, owner: str, expires_at: int = 0) -> None:
        super().__init__(message)
        self.owner = owner
        self.expires_at = expires_at


class Fenced(StoreError):
    """Raised when the lease given was taken over: its holder must stop."""

    def __init__(self, message: str, *, owner: str = "") -> None:
        super().__init__(message)
        self.owner = owner


class NotEntered(StoreError):
    """Raised when a handle without the lease is to make a step, send one or run a tool."""


class InvalidEvent(StoreError):
    """Raised when a value cannot be stored; `path` names the field."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class Busy(StoreError):
    """Raised when the database stayed locked by others past the bound."""


class StoreFull(StoreError):
    """Raised when the medium has no room: nothing of the append was written."""


class ReadOnly(StoreError):
    """Raised when something must be written and the medium or the handle forbids it."""


class OutcomeUnknown(StoreError):
    """Raised when the connection broke at commit; the same call with the same ids settles it."""


class Damaged(StoreError):
    """Raised when stored bytes do not fit their digests; `session` and `seq` say where."""

    def __init__(self, message: str, *, session: str = "", seq: int = 0) -> None:
        super().__init__(message)
        self.session = session
        self.seq = seq


class Away(Damaged):
    """Raised when a content's bytes are in an object store that does not give them."""


class NoStore(StoreError):
    """Raised when there is no sawlog store at the place named."""


class NoSession(StoreError):
    """Raised when no session has that name, id or prefix for this tenant."""


class WrongPosition(StoreError):
    """Raised when a follower's position was given by another store, or before a restore."""


class OldSchema(StoreError):
    """Raised when the store waits for a migration; the message names the command."""


class NewerSchema(StoreError):
    """Raised when the store was written by a newer sawlog."""


class FormatError(SawlogError):
    """Raised when a foreign file cannot be read; `path` and `line` say where."""

    def __init__(self, message: str, *, path: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


class UnknownFormat(FormatError):
    """Raised when a file is none of the known formats or holds no whole record."""


class TooLarge(FormatError):
    """Raised when a line, a nesting or a count of a foreign file is above its bound."""


class BuildError(SawlogError):
    """Raised when a step cannot be built or replayed."""


class Refused(BuildError):
    """Raised by callers that asked for a packet and got the builder's named refusal.

    `reason` is one of `blocked`, `awaiting_approval`, `needs_context`, `cannot_fit`,
    `missing_blob`, `nothing_to_send`; `needs` says what is needed. `policy` is the name and number
    of the rules that refused, which no event says when there is no packet.
    """

    def __init__(
        self, reason: str, message: str, needs: tuple[str, ...] = (), *, policy: str = ""
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.needs = needs
        self.policy = policy


class NoStep(BuildError):
    """Raised when a session has no step of that number."""


class StepEnded(BuildError):
    """Raised when a step that has its end in the log is to be sent, answered or given up."""

    def __init__(self, message: str, *, step: int = 0) -> None:
        super().__init__(message)
        self.step = step


class UnknownNumber(BuildError):
    """Raised when a fold, form, renderer, profile or policy is not installed under that number."""


class InvalidItem(SawlogError):
    """Raised when a source, an item, a candidate or a task of a selection breaks its rules.

    `code` names the rule: `blank_item_id`, `unknown_source_channel`, `negative_budget`, …
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class OutsideRoot(SawlogError):
    """Raised when a path, or a link on it, leads out of the root that holds it: it is not read.

    `path` is the path as it was given.
    """

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class ToolError(SawlogError):
    """Raised when a tool call is used in a way that the log does not allow."""


class CallDenied(ToolError):
    """Raised when a call that was denied is to be run; `reason` says why, as the model is told."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class NotCompacted(SawlogError):
    """Raised when a compaction leaves packets as they were; `code` says why.

    `nothing_to_cut`, `open_call`, `no_progress`, `region_changed` or `under_way` (another one of
    the same handle is). `fixed`, `history` and `last` are units: what stands in front of the
    history, all of it, what is behind its last border.
    """

    reason = "cannot_compact"

    def __init__(
        self, code: str, message: str, *, fixed: int = 0, history: int = 0, last: int = 0
    ) -> None:
        super().__init__(f"cannot_compact ({code}): {message}")
        self.code = code
        self.fixed = fixed
        self.history = history
        self.last = last


class EffectUnknown(ToolError):
    """Raised when a thing that may have been done already is to be done again; `key` names it.

    Nobody recorded what became of it: somebody has to say so, or to decide that it runs again.
    """

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(message)
        self.key = key


class CredentialUnavailable(ToolError):
    """Raised when nothing is known under the handle of a secret; the message names the handle.

    The tool cannot do without, and the model is told so: inside a tool run it becomes the call's
    error result. `code` is `credential_unavailable`.
    """

    code = "credential_unavailable"

    def __init__(self, handle: str) -> None:
        super().__init__(f"credential_unavailable: there is no secret under the handle {handle!r}")
        self.handle = handle


class InvalidArguments(SawlogError):
    """Raised when the arguments that a model wrote for a call do not fit its tool.

    It is the model's to mend: inside a tool run it becomes the call's error result.
    """


class AttemptFailed(SawlogError):
    """Raised when the provider refused a request or the sending broke.

    `kind` is the class of the refusal, `status` the HTTP status (0: none), `request_id` the
    provider's. `retry_after` are the seconds that the provider asks to wait, None when it does not.
    """

    def __init__(self, message: str, *, kind: str, status: int = 0, request_id: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.request_id = request_id
        self.retry_after: float | None = None


class ConfigError(SawlogError):
    """Raised when an option or a setting means nothing here."""


class InvalidPolicy(ConfigError):
    """Raised when a policy document does not say a policy; `path` names the place in it."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
