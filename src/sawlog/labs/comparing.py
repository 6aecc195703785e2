"""Two policies on the same cases: what got better, what got worse, which samples fail and why.

What a case checks is its lab's affair; here a case either passes or fails with reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sawlog.builder.selection.policy import POLICIES, Policy, policy_of
from sawlog.store.errors import ConfigError, FormatError, InvalidPolicy, TooLarge
from sawlog.workspace.files import Absent, Unreadable, beginning

_LARGEST = 256 * 1024 * 1024
_LARGEST_POLICY = 1024 * 1024
_TOLD = 20  # bad lines that one error names


class Sample(msgspec.Struct, frozen=True):
    """How one case came out: what failed, in the lab's words; nothing failed is a pass.

    `unsafe` are those of the failures that no other failure excuses.
    """

    case: str
    failures: tuple[str, ...] = ()
    unsafe: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True when nothing failed."""
        return not self.failures


class Failing(msgspec.Struct, frozen=True):
    """A sample that fails under one of the policies."""

    policy: str
    case: str
    failures: tuple[str, ...]


class Comparison(msgspec.Struct, frozen=True):
    """What a candidate does to the cases that a baseline was run on; cases in their order.

    A regression is a case that passed and fails, or one that fails now in an unsafe way in which it
    did not fail before.
    """

    baseline: str
    candidate: str
    cases: int
    baseline_passed: int
    candidate_passed: int
    improvements: tuple[str, ...]
    regressions: tuple[str, ...]
    failing: tuple[Failing, ...]

    @property
    def ok(self) -> bool:
        """True when nothing got worse."""
        return not self.regressions


def compare(
    baseline: str, before: Sequence[Sample], candidate: str, after: Sequence[Sample]
) -> Comparison:
    """Compare the samples of two policies, named `baseline` and `candidate`.

    Raises ConfigError unless both have the same cases in the same order.
    """
    if [sample.case for sample in before] != [sample.case for sample in after]:
        raise ConfigError("only two runs over the same cases can be compared")
    pairs = list(zip(before, after, strict=True))
    return Comparison(
        baseline=baseline,
        candidate=candidate,
        cases=len(pairs),
        baseline_passed=sum(sample.passed for sample in before),
        candidate_passed=sum(sample.passed for sample in after),
        improvements=tuple(new.case for old, new in pairs if new.passed and not old.passed),
        regressions=tuple(
            new.case
            for old, new in pairs
            if (old.passed and not new.passed) or not set(new.unsafe) <= set(old.unsafe)
        ),
        failing=tuple(
            Failing(policy, sample.case, sample.failures)
            for policy, samples in ((baseline, before), (candidate, after))
            for sample in samples
            if not sample.passed
        ),
    )


_BUILT_IN = re.compile("([^@]+)(?:@([0-9]{1,9}))?")


def policy_named(given: str) -> Policy:
    """The policy that is meant: a built-in one (`chapter5`, `default@2`), else the TOML file of
    one.

    Raises UnknownNumber for a number that a built-in one does not have, ConfigError for what is
    neither a name nor a file, InvalidPolicy for a file that says no policy.
    """
    names = sorted({policy.name for policy in POLICIES.values()})
    built_in = _BUILT_IN.fullmatch(given)
    if built_in is not None and built_in[1] in names:
        return policy_of(built_in[1], int(built_in[2]) if built_in[2] else None)
    try:
        raw = _bytes(Path(given), _LARGEST_POLICY, "a policy has at most 1 MiB")
    except Absent:
        raise ConfigError(
            f"{given!r} is no policy: name {', '.join(names[:-1])} or {names[-1]}, or a TOML "
            "file of your own (no file is there under this name)"
        ) from None
    # Only here: it loads pydantic, which built-in policies do without.
    from sawlog.builder.selection.policydoc import policy_from_toml

    try:
        return policy_from_toml(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidPolicy("a policy is UTF-8 text", path=given) from None
    except InvalidPolicy as error:
        raise InvalidPolicy(str(error), path=given) from error


def _bytes(path: Path, most: int, bound: str) -> bytes:
    """What stands in a regular file; the others, such as a FIFO, might never end. Raises Absent."""
    try:
        found = beginning(path, most)
    except Unreadable as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if found.size > most:
        raise TooLarge(f"{path}: {bound}", path=str(path))
    return found.data


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a case file that hold something, with their numbers from 1.

    Raises TooLarge above 256 MiB, FormatError for a file without any, ConfigError for what is no
    file or cannot be read.
    """
    try:
        raw = _bytes(path, _LARGEST, "a case file has at most 256 MiB")
    except Absent:
        raise ConfigError(f"{path}: there is no such file or folder") from None
    # Only line feeds end a line: other separators may stand inside of a JSON text.
    lines = [(at, line.strip(b" \t\r")) for at, line in enumerate(raw.split(b"\n"), 1)]
    lines = [(at, line) for at, line in lines if line]
    if not lines:
        raise FormatError(f"{path}: there are no cases in it", path=str(path))
    yield from lines


def bad_lines(path: Path, found: Sequence[tuple[int, str]], word: str = "line") -> FormatError:
    """The one error that names every line that is no case, and why; `word` is what is counted."""
    told = "; ".join(f"{word} {at}: {why}" for at, why in found[:_TOLD])
    more = f"; and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    return FormatError(f"{path}: {told}{more}", path=str(path), line=found[0][0])
