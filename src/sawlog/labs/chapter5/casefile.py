"""Cases of one's own: a file with one JSON object a line, and whether what came of one fits it.

A line has `experiment`, `variant`, `input` and, where more than the graders is to be checked,
`expected`. Both have the fields that the lab's own data has, but `candidates_in_order` holds the
texts themselves, each under a `key` (its `source_id` when it has none) by which the rest of the
line names it:

    {"experiment": "mine", "variant": "first", "input": {"budget_units": 100, "expected_kind":
     "needs_context", "candidates_in_order": [{"source_id": "task", "channel": "user_request",
     "content": "Fix the parser."}], "expected_requirements": ["source-file"]}}

A case of a recorded step (`sawlog case`) says more of its texts: `signals`, among them the units
that each took. Then the budget is in these units, whatever the policy measures by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from sawlog.builder.channels import CHANNELS
from sawlog.builder.item import ContextItem, Kind, Sensitivity
from sawlog.builder.selection.task import Task
from sawlog.labs.chapter5.case import Case, Contract, Goal, Signals
from sawlog.labs.chapter5.decision import KINDS
from sawlog.labs.chapter5.sources import LabSource
from sawlog.labs.comparing import bad_lines, lines_of
from sawlog.store.errors import SawlogError


class _Text(LabSource, frozen=True, forbid_unknown_fields=True, kw_only=True):
    key: str | None = None
    derived: Mapping[str, Any] | None = None  # the lab's data has it; it is worked out here
    repository: str | None = None
    task_id: str | None = None
    tenant: str | None = None
    signals: Signals = Signals()

    @property
    def name(self) -> str:
        return self.source_id if self.key is None else self.key


class _Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    must_select: tuple[str, ...] = ()
    must_have_reason: tuple[tuple[str, str], ...] = ()


class _Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    candidates_in_order: tuple[_Text, ...]
    budget_units: int
    expected_kind: str
    expected_tool: str | None = None
    required_arguments: tuple[str, ...] = ()
    expected_requirements: tuple[str, ...] = ()
    section_order: tuple[str, ...] = ()
    irrelevant_fixtures: tuple[str, ...] = ()
    conflict_contract: _Contract = _Contract()
    repository: str = "price-lab"
    task_id: str = "repair-price"
    target_path: str = "pricing.py"
    provider_boundary: str = "external-model"
    allowed_sensitivities: tuple[str, ...] = (Sensitivity.INTERNAL, Sensitivity.PUBLIC)
    gateway: Literal["chapter5", "strict"] = "chapter5"
    topics: tuple[str, ...] = ()
    phase: str = ""
    clearance: int = 0
    as_of: str = ""
    tenant: str = ""
    # What the lab's data says of a variant beside what is in it.
    added_to_base: tuple[str, ...] = ()
    removed_from_base: tuple[str, ...] = ()


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What must come of a case. What is not said is not checked; inside of a field, too."""

    selected_count: int | msgspec.UnsetType = msgspec.UNSET
    packet: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    trace: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    decision: dict[str, Any] | None | msgspec.UnsetType = msgspec.UNSET
    gateway: dict[str, Any] | None | msgspec.UnsetType = msgspec.UNSET
    report_record: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    experiment: str
    variant: str
    input: _Input
    expected: Expected = Expected()


class OwnCase(msgspec.Struct, frozen=True):
    """A case of a file, and what must come of it."""

    case: Case
    expected: Expected

    @property
    def name(self) -> str:
        """What it is called in a comparison."""
        return f"{self.case.experiment}/{self.case.variant}"


def read_cases(path: Path) -> list[OwnCase]:
    """The cases of a file, in its order; blank lines are skipped.

    Raises one FormatError that names each bad line with its number and why: no JSON, a field that
    is unknown or of a wrong type, an item or a task that breaks its rules, a key that names no
    text, a case that stands there twice.
    """
    cases: list[OwnCase] = []
    bad: list[tuple[int, str]] = []
    seen: dict[str, int] = {}
    for at, line in lines_of(path):
        try:
            own = case_of(line)
        except msgspec.MsgspecError as error:
            bad.append((at, str(error)))
        except UnicodeDecodeError:
            bad.append((at, "it is no UTF-8"))
        except RecursionError:
            bad.append((at, "it is nested too deeply"))
        except (SawlogError, _Misnamed) as error:
            bad.append((at, str(error)))
        else:
            first = seen.setdefault(own.name, at)
            if first != at:
                bad.append((at, f"the case {own.name!r} stands in line {first} already"))
            cases.append(own)
    if bad:
        raise bad_lines(path, bad)
    return cases


class _Misnamed(Exception):
    pass


def case_of(raw: bytes) -> OwnCase:
    """The case of one line. Raises what `read_cases` tells of a line."""
    line = msgspec.json.decode(raw, type=_Line)
    given = line.input
    if not line.experiment or not line.variant:
        raise _Misnamed("experiment and variant need a name")
    if given.expected_kind not in KINDS:
        raise _Misnamed(f"expected_kind is {given.expected_kind!r}: use one of {', '.join(KINDS)}")
    unknown = sorted(set(given.section_order) - set(Kind))
    if unknown:
        raise _Misnamed(f"section_order has {unknown[0]!r}, which is no kind of item")
    items: dict[str, ContextItem] = {}
    for text in given.candidates_in_order:
        if text.name in items:
            raise _Misnamed(f"two texts have the key {text.name!r}: give one another key")
        items[text.name] = text.item(
            given.repository if text.repository is None else text.repository,
            given.task_id if text.task_id is None else text.task_id,
            tenant=text.tenant,
            locator=text.signals.locator or None,
            channels=CHANNELS,
        )
    units = [text.signals.units for text in given.candidates_in_order]
    if None in units and any(one is not None for one in units):
        raise _Misnamed("some texts bring their units and others do not: give all of them or none")
    case = Case(
        experiment=line.experiment,
        variant=line.variant,
        items=tuple(items.values()),
        task=Task(
            budget=given.budget_units,
            repository=given.repository,
            target_path=given.target_path,
            task_id=given.task_id,
            provider_boundary=given.provider_boundary,
            allowed_sensitivities=given.allowed_sensitivities,
            requirements=given.expected_requirements,
            section_order=given.section_order,
            topics=given.topics,
            phase=given.phase,
            clearance=given.clearance,
            as_of=given.as_of,
            tenant=given.tenant,
        ),
        goal=Goal(given.expected_kind, given.expected_tool, given.required_arguments),
        irrelevant=_ids("irrelevant_fixtures", given.irrelevant_fixtures, items),
        contract=Contract(
            _ids("must_select", given.conflict_contract.must_select, items),
            tuple(
                (_ids("must_have_reason", [key], items)[0], reason)
                for key, reason in given.conflict_contract.must_have_reason
            ),
        ),
        gateway=given.gateway,
        signals=tuple(text.signals for text in given.candidates_in_order),
    )
    return OwnCase(case, line.expected)


def _ids(field: str, keys: Sequence[str], items: Mapping[str, ContextItem]) -> tuple[str, ...]:
    missing = [key for key in keys if key not in items]
    if missing:
        raise _Misnamed(f"{field} names {missing[0]!r}, which is the key of no text")
    return tuple(items[key].item_id for key in keys)


def differences(expected: object, actual: object, path: str = "") -> list[str]:
    """Where a value is not as expected. Of an object only the members that are expected count."""
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return [f"{path} is {_shown(actual)}, not an object"]
        members = cast("dict[str, object]", actual)
        found: list[str] = []
        for key, value in cast("dict[str, object]", expected).items():
            inner = f"{path}.{key}" if path else key
            if key in members:
                found.extend(differences(value, members[key], inner))
            else:
                found.append(f"{inner} is not there")
        return found
    pairs = _pairs(expected, actual)
    if pairs is not None:
        return [d for at, (a, b) in pairs for d in differences(a, b, f"{path}[{at}]")]
    # 1 and True are the same to Python, and not to whoever wrote the case.
    if expected == actual and isinstance(expected, bool) == isinstance(actual, bool):
        return []
    return [f"{path} is {_shown(actual)}, not {_shown(expected)}"]


def _pairs(one: object, other: object) -> Iterable[tuple[int, tuple[object, object]]] | None:
    """The elements of two lists of one length, side by side and numbered; None for all else."""
    if not isinstance(one, list) or not isinstance(other, list):
        return None
    left, right = cast("list[object]", one), cast("list[object]", other)
    return enumerate(zip(left, right, strict=True)) if len(left) == len(right) else None


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"
