"""The five experiments of the lab, 30 variants in all: what each changes of one base set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sawlog.builder.selection.task import SECTION_ORDER, Task
from sawlog.labs.chapter5.case import Case, Contract, Goal
from sawlog.labs.chapter5.sources import lab_sources
from sawlog.store.errors import ConfigError

BASE = (
    "system-context-contract",
    "agents-md",
    "task-template-1",
    "pricing-py",
    "test-pricing-py",
    "failing-test-observation",
    "currency-format-fact",
    "apply-patch-precise",
)
"""The texts that every variant begins with, in the order in which they are loaded."""

_ROOM = 5000
_PATCH = Goal("tool", "apply_patch", ("new", "old", "path"))
_ASK = Goal("needs_context")


class Claims(msgspec.Struct, frozen=True):
    """What the records of an experiment may be cited for, and what not."""

    supported: tuple[str, ...]
    unsupported: tuple[str, ...]


CLAIMS = {
    "assembly_ablation": Claims(
        ("required reservation, deduplication, and missing-context signaling",),
        ("model capability or production success rate",),
    ),
    "instruction_conflict": Claims(
        ("authority and conflict handling are independent from input order",),
        ("all natural-language conflicts are automatically resolvable",),
    ),
    "information_position": Claims(
        ("the same selected set can be serialized in different orders",),
        ("a universal lost-in-the-middle effect for every model",),
    ),
    "tool_description": Claims(
        ("tool-contract wording changes deterministic probe behavior",),
        ("description clarity is isolated from length in natural language",),
    ),
    "noise_and_injection": Claims(
        ("noise budget and injection defenses remain separately observable",),
        ("prompt delimiters replace gateway or sandbox enforcement",),
    ),
}
"""By experiment. A case of one's own claims nothing but itself."""


def lab_cases(experiment: str = "") -> list[Case]:
    """The 30 variants, experiment by experiment; or those of one.

    Raises ConfigError for an experiment that the lab does not have.
    """
    cases = [
        *_assembly_ablation(),
        *_instruction_conflict(),
        *_information_position(),
        *_tool_description(),
        *_noise_and_injection(),
    ]
    return of_experiment(cases, experiment) if experiment else cases


def of_experiment(cases: Iterable[Case], experiment: str) -> list[Case]:
    """The cases of one experiment, in their order. Raises ConfigError when there are none."""
    cases = list(cases)
    found = [case for case in cases if case.experiment == experiment]
    if not found:
        known = ", ".join(dict.fromkeys(case.experiment for case in cases))
        raise ConfigError(f"there is no experiment {experiment!r}: name one of {known}")
    return found


def _case(
    experiment: str,
    variant: str,
    keys: Sequence[str] = BASE,
    *,
    budget: int = _ROOM,
    goal: Goal = _PATCH,
    order: tuple[str, ...] = SECTION_ORDER,
    irrelevant: Sequence[str] = (),
    select: Sequence[str] = (),
    reasons: Sequence[tuple[str, str]] = (),
    requirements: tuple[str, ...] = (),
) -> Case:
    lab = lab_sources()
    items = {key: lab.item(key) for key in keys}
    return Case(
        experiment=experiment,
        variant=variant,
        items=tuple(items.values()),
        task=Task(
            budget=budget,
            repository=lab.repository,
            target_path=lab.target_path,
            task_id=lab.task_id,
            requirements=(*lab.expected_requirements, *requirements),
            section_order=order,
        ),
        goal=goal,
        irrelevant=tuple(items[key].item_id for key in irrelevant),
        contract=Contract(
            tuple(items[key].item_id for key in select),
            tuple((items[key].item_id, reason) for key, reason in reasons),
        ),
    )


def _without(key: str) -> tuple[str, ...]:
    return tuple(other for other in BASE if other != key)


def _instead(key: str, other: str) -> tuple[str, ...]:
    return tuple(other if known == key else known for known in BASE)


def _assembly_ablation() -> Iterator[Case]:
    name = "assembly_ablation"
    yield _case(name, "complete", budget=4000)
    yield _case(name, "missing_required", _without("test-pricing-py"), budget=4000, goal=_ASK)
    yield _case(name, "duplicate", (*BASE, "test-pricing-copy"), budget=4000)
    yield _case(name, "tight_budget", budget=180, goal=_ASK)
    yield _case(name, "required_restored", budget=1200)


def _instruction_conflict() -> Iterator[Case]:
    name = "instruction_conflict"
    system, repository = "completion-policy-system", "completion-policy-repository"
    lost = [(repository, "conflict_lost")]
    for variant, keys in (
        ("trusted_first", (system, repository, *BASE)),
        ("trusted_last", (*BASE, repository, system)),
    ):
        yield _case(name, variant, keys, select=[system], reasons=lost)
    user, repository = "evidence-policy-user", "evidence-policy-repository"
    yield _case(
        name,
        "user_vs_repository",
        (*BASE, user, repository),
        select=[repository],
        reasons=[(user, "conflict_lost")],
    )
    seen, rule = "completion-signal-observation", "completion-signal-rule"
    yield _case(
        name,
        "observation_vs_instruction",
        (*BASE, seen, rule),
        select=[rule, seen],
        reasons=[(rule, "selected"), (seen, "selected")],
    )
    hostile = "hostile-authority"
    as_data = [(hostile, "untrusted_instruction")]
    for variant, loaded in (
        ("hostile_first", (hostile, *BASE)),
        ("hostile_last", (*BASE, hostile)),
    ):
        yield _case(name, variant, loaded, select=[hostile], reasons=as_data)
    facts = ("runtime-python-311", "runtime-python-312")
    visible = [(fact, "conflict_visible") for fact in facts]
    yield _case(name, "fact_conflict", (*BASE, *facts), select=facts, reasons=visible)


def _information_position() -> Iterator[Case]:
    others = tuple(kind for kind in SECTION_ORDER if kind != "fact")
    for template in (1, 2, 3):
        keys = _instead("task-template-1", f"task-template-{template}")
        for where, at in (("front", 0), ("middle", 3), ("back", len(others))):
            order = (*others[:at], "fact", *others[at:])
            yield _case("information_position", f"{where}_t{template}", keys, order=order)


def _tool_description() -> Iterator[Case]:
    for wording in ("vague", "precise", "precise_with_negative_constraint"):
        keys = _instead("apply-patch-precise", f"apply-patch-{wording}")
        goal = _ASK if wording == "vague" else _PATCH
        yield _case("tool_description", wording, keys, goal=goal)


def _noise_and_injection() -> Iterator[Case]:
    name = "noise_and_injection"
    for count in (0, 5, 20):
        noise = tuple(f"noise-{at:02}" for at in range(count))
        yield _case(name, f"noise_{count}", (*BASE, *noise), irrelevant=noise)
    yield _case(name, "injection_authority", (*BASE, "hostile-authority"))
    yield _case(
        name,
        "injection_secret",
        (*BASE, "secret"),
        goal=_ASK,
        requirements=("secret-safety",),
    )
    yield _case(name, "injection_path", (*BASE, "hostile-path"))
