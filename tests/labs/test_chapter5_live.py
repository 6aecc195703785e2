"""The live door over real HTTP on this machine: each failure in its class, the key nowhere."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from sawlog.labs.chapter5.experiments import lab_cases
from sawlog.labs.chapter5.live import LiveProbe
from sawlog.labs.chapter5.messages import request_bytes
from sawlog.labs.chapter5.probe import Attempt
from sawlog.labs.chapter5.provider import ENDPOINT, MODEL, TIMEOUT
from sawlog.labs.chapter5.report import report_bytes
from sawlog.labs.chapter5.running import built, outcome_of, run_live
from sawlog.store.errors import ConfigError
from tests.labs.chapter5_data import data
from tests.labs.chapter5_server import Answer, api

KEY = "sk-live-test-0123456789"
ADAPTER: dict[str, Any] = data("probe-gateway-adapter.json")["adapter"]
CASE = lab_cases()[0]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer's shell says of proxies does not reach loopback."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def reply(content: object, **members: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}], **members}).encode()


OK = ADAPTER["ok_vector"]
FINE = reply(OK["content"], model=OK["model"], usage=OK["usage"])


def attempt(answer: Answer, timeout: float = TIMEOUT) -> Attempt:
    packet, _ = built(CASE)
    with (
        api(lambda n: answer) as server,
        LiveProbe(KEY, endpoint=server.url, timeout=timeout) as probe,
    ):
        made = probe.attempt(packet, CASE.items)
    assert len(server.bodies) == 1, "nothing is retried"
    return made


def test_the_constants_are_the_published_ones() -> None:
    assert (MODEL, ENDPOINT, TIMEOUT) == (
        ADAPTER["default_model"],
        ADAPTER["endpoint"],
        ADAPTER["timeout_s"],
    )


def test_an_answer_is_a_decision_with_model_usage_and_the_digest_of_what_left() -> None:
    packet, _ = built(CASE)
    with api(lambda _: Answer(body=FINE)) as server:
        with LiveProbe(KEY, endpoint=server.url) as probe:
            made = probe.attempt(packet, CASE.items)
    assert made.status == "ok" and made.error_code is None
    assert made.decision is not None and made.decision.kind == "needs_context"
    assert (made.requested_model, made.returned_model) == (MODEL, OK["model"])
    assert dict(made.usage) == OK["usage"]
    assert made.retry_count == 0 and made.latency_ms > 0
    assert server.bodies == [request_bytes(packet, CASE.items, MODEL)]
    assert made.request_digest == hashlib.sha256(server.bodies[0]).hexdigest()
    assert server.keys == [f"Bearer {KEY}"]


STATUSES = [
    (int(vector["cause"].split()[1]), vector["status"])
    for vector in ADAPTER["failure_map"]
    if vector["cause"].startswith("http ")
]


@pytest.mark.parametrize(
    ("status", "expected"),
    [*STATUSES, (302, "provider_error"), (400, "provider_error"), (418, "provider_error")],
)
def test_each_http_status_has_its_class(status: int, expected: str) -> None:
    made = attempt(Answer(status, FINE))
    assert (made.status, made.error_code) == (expected, f"http_{status}")
    assert made.decision is None


@pytest.mark.parametrize(
    "answer", [Answer(wait=20.0, body=FINE), Answer(body=FINE, drip=0.05)], ids=["late", "dripping"]
)
def test_an_answer_that_takes_too_long_is_a_timeout(answer: Answer) -> None:
    """The bound is on the whole exchange: a byte now and then does not stretch it."""
    made = attempt(answer, timeout=0.3)
    assert (made.status, made.error_code, made.decision) == ("timeout", "timeout", None)
    assert made.latency_ms < 19_000


def test_a_dropped_connection_is_a_transport_error() -> None:
    made = attempt(Answer(0))
    assert (made.status, made.error_code) == ("provider_error", "transport_error")


def test_nobody_listening_is_a_transport_error() -> None:
    packet, _ = built(CASE)
    with LiveProbe(KEY, endpoint="http://127.0.0.1:1/chat") as probe:
        made = probe.attempt(packet, CASE.items)
    assert (made.status, made.error_code) == ("provider_error", "transport_error")


@pytest.mark.parametrize(
    "body",
    [
        *(
            reply(vector["content"]) if "content" in vector else json.dumps(vector).encode()
            for vector in ADAPTER["invalid_response_vectors"]
        ),
        b"", b"\xff", b"[]", b"{}", b'{"choices":[1]}', reply(None), b" " * (5 * 1024 * 1024),
    ],
    ids=lambda body: body[:60].decode("latin-1"),
)  # fmt: skip
def test_a_malformed_answer_is_an_invalid_response(body: bytes) -> None:
    made = attempt(Answer(body=body))
    assert (made.status, made.error_code) == ("invalid_response", "invalid_response")
    assert made.decision is None and made.request_digest is not None


def test_a_failed_attempt_is_in_no_denominator() -> None:
    """S0-62: two attempts, one decision."""
    with api(lambda n: Answer(429) if n == 1 else Answer(body=FINE)) as server:
        with LiveProbe(KEY, endpoint=server.url) as probe:
            packet, trace = built(CASE)
            records = [
                outcome_of(CASE, packet, trace, probe.attempt(packet, CASE.items)).record
                for _ in range(2)
            ]
    good, bad = records
    assert (good.valid_decisions, bad.valid_decisions) == (1, 0)
    assert (good.total_attempts, bad.total_attempts) == (1, 1)
    assert (good.infrastructure_failure, bad.infrastructure_failure) == (None, "rate_limited")
    assert bad.decision_grade is None and bad.task_outcome is None and bad.gateway_kind is None
    assert bad.build_grade.passed and bad.safety_grade.passed


def test_a_live_report_numbers_its_runs_and_tells_failures_apart() -> None:
    """S0-72: one attempt a record, the digest of each request, the date, and the key nowhere."""
    patch = '{"kind":"tool","tool":{"name":"apply_patch","arguments":{"path":".env"}}}'
    answers = {0: Answer(500), 1: Answer(body=reply("no")), 2: Answer(body=reply(patch))}
    with api(lambda n: answers.get(n, Answer(body=FINE))) as server:
        with LiveProbe(KEY, endpoint=server.url) as probe:
            report = run_live(probe, model=MODEL, run_date="2026-11-30", repeats=2)
    raw = report_bytes(report)
    assert KEY.encode() not in raw and not any(KEY.encode() in body for body in server.bodies)
    told = json.loads(raw)
    assert (told["total_attempts"], told["valid_decisions"]) == (60, 58)
    assert (told["run_status"], told["requested_model"]) == ("completed", MODEL)
    assert told["infrastructure_failures"] == [
        {
            "experiment": "assembly_ablation",
            "variant": f"complete__run{number}",
            "status": status,
            "error_code": code,
        }
        for number, status, code in (
            (1, "provider_error", "http_500"),
            (2, "invalid_response", "invalid_response"),
        )
    ]
    records = told["records"]
    names = [(record["experiment"], record["variant"]) for record in records]
    assert names == sorted(names) and len(set(names)) == 60
    assert all(record["variant"].endswith(("__run1", "__run2")) for record in records)
    assert {record["run_date"] for record in records} == {"2026-11-30"}
    sent = {hashlib.sha256(body).hexdigest() for body in server.bodies}
    assert {record["provider_request_digest"] for record in records} == sent
    third = next(one for one in records if one["variant"] == "missing_required__run1")
    assert third["gateway_kind"] == "deny"


@pytest.mark.parametrize("key", ["", " ", "a\nb", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_unsaid(key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        LiveProbe(key)
    assert not key.strip() or key not in str(refused.value)


@pytest.mark.parametrize(
    "endpoint",
    ["http://example.org/chat", "ftp://127.0.0.1/", "", "https://", "http://[", "https://x:y/"],
)
def test_the_key_goes_to_no_other_machine_in_the_clear(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="https"):
        LiveProbe(KEY, endpoint=endpoint)
