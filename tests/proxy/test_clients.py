"""The official clients, curl and node through the proxy: what arrives, what comes back, what the
log holds."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from sawlog.agentlog import open as open_log
from sawlog.providers.fake import At, FakeProvider, Reply, Stall, Streamed
from tests.cli.command import sawlog
from tests.proxy.behind import always, proxied
from tests.recorder.programs import APIS, Program, script

KEY = "sk-this-is-nobodys-key-0123456789"


VARIABLES = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai-chat": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
    "deepseek-chat": "DEEPSEEK_BASE_URL",
}


def client(api: str, variables: dict[str, str], *, is_async: bool = False) -> Any:
    """The official client of an API, told of the proxy as a program would be."""
    options: dict[str, Any] = {
        "api_key": KEY,
        "base_url": variables[VARIABLES[api]],
        "max_retries": 0,
    }
    if api == "anthropic":
        made = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
        return made(**options)
    return openai.AsyncOpenAI(**options) if is_async else openai.OpenAI(**options)


def packets(store: object, name: str = "s") -> list[bytes]:
    """The bodies of a session's packets, as `packet --raw` gives them."""
    with open_log(str(store)) as log:
        steps = len(log.read(name).steps)
    found = [sawlog("--store", store, "packet", f"{name}@{n + 1}", "--raw") for n in range(steps)]
    assert [done.code for done in found] == [0] * steps
    return [done.out for done in found]


def is_clean(store: object) -> bool:
    """True when `verify` finds nothing."""
    done = sawlog("--store", store, "verify", "--all")
    return done.code == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_what_arrives_is_what_was_sent_and_what_the_log_holds(
    tmp_path: Path, api: str, stream: bool
) -> None:
    """A conversation of two turns: the provider, the client and the log agree to the byte."""
    store = tmp_path / "s.db"
    direct = FakeProvider(script(stream=stream))
    with direct:
        talk(api, dict.fromkeys(VARIABLES.values(), direct.base_url(api)), stream)
    with FakeProvider(script(stream=stream)) as fake, proxied(store, fake.url) as proxy:
        talk(api, proxy.variables, stream)
        told = proxy.end()
    assert fake.bodies() == direct.bodies()
    assert packets(store) == fake.bodies()
    assert told == {"recorded": 4, "broke": 0, "passed": 0, "sessions": 1, "first": "s"}
    assert is_clean(store)
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def talk(api: str, variables: dict[str, str], stream: bool) -> None:
    """Two turns of a conversation."""
    with client(api, variables) as sdk:
        program = Program(api, sdk, stream=stream)
        program.turn()
        program.turn()


PATHS = {
    "anthropic": "/v1/messages",
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "deepseek-chat": "/chat/completions",
}


@pytest.mark.parametrize("api", APIS)
def test_the_bytes_of_a_stream_are_those_that_the_provider_sends(tmp_path: Path, api: str) -> None:
    """However they are cut."""
    said = [{"role": "user", "content": "hi"}]
    body = {"model": "m", "max_tokens": 9, "stream": True, "messages": said}
    if api == "openai-responses":
        body = {"model": "m", "stream": True, "input": said}
    headers = {"x-api-key": KEY, "authorization": f"Bearer {KEY}"}
    headers["anthropic-version"] = "2023-06-01"

    def raw(base: str) -> bytes:
        response = httpx.post(base + PATHS[api], json=body, headers=headers, trust_env=False)
        assert response.status_code == 200, response.text
        return response.content

    with FakeProvider(script(stream=True)) as fake, proxied(tmp_path / "s", fake.url) as proxy:
        through = raw(proxy.variables[VARIABLES[api]])
    with FakeProvider(script(stream=True)) as fake:
        direct = raw(fake.base_url(api))
    assert through == direct and len(direct) > 500


def test_the_clients_own_headers_arrive_but_those_of_the_connection(tmp_path: Path) -> None:
    """Names, values and order of headers are those that the client sends without a proxy."""

    def headers(url: str) -> list[tuple[str, str]]:
        with anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0) as sdk:
            sdk.messages.create(
            model="m", max_tokens=5, messages=[{"role": "user", "content": "hi"}],
            extra_headers={"X-Trace": "a b;c", "Anthropic-Beta": "one"},
        )  # fmt: skip
        found = fake.requests[-1].headers
        return [(name, value) for name, value in found.items() if name != "connection"]

    with FakeProvider(always("hi")) as fake, proxied(tmp_path / "s", fake.url) as proxy:
        assert headers(proxy.variables["ANTHROPIC_BASE_URL"]) == headers(fake.url)


@pytest.mark.parametrize("api", APIS)
def test_async_clients_side_by_side_have_a_session_each(tmp_path: Path, api: str) -> None:
    async def talk(number: int, variables: dict[str, str]) -> None:
        async with client(api, variables, is_async=True) as sdk:
            one = Program(api, sdk, seed=number, stream=True)
            one.says(f"I am number {number}")
            for _ in range(2):
                for call_id, _ in one.take(await one.aask()):
                    one.result(call_id, "there")

    store = tmp_path / "s.db"
    with FakeProvider(script(stream=True)) as fake, proxied(store, fake.url) as proxy:

        async def all_of_them() -> None:
            await asyncio.gather(*(talk(n, proxy.variables) for n in range(4)))

        asyncio.run(all_of_them())
        told = proxy.end()
    assert (told["recorded"], told["broke"], told["sessions"]) == (8, 0, 4)
    kept = [packets(store, name) for name in ("s", "s/2", "s/3", "s/4")]
    assert all(len(bodies) == 2 and one_talk(bodies) for bodies in kept)
    assert sorted(body for bodies in kept for body in bodies) == sorted(fake.bodies())
    assert is_clean(store)


def one_talk(bodies: list[bytes]) -> bool:
    """True when all bodies are of the same conversation."""
    return all(b"I am number " in body for body in bodies) and (
        len({body.split(b"I am number ")[1][:1] for body in bodies}) == 1
    )


def test_a_stream_that_is_left_is_kept_so_far_and_the_conversation_goes_on(
    tmp_path: Path,
) -> None:
    """The client breaks off and asks again at once: the log has the part, in the same session."""
    store = tmp_path / "s.db"
    begun = Streamed(Reply("word " * 20), faults=[Stall(At(events=4), 50)])
    with FakeProvider([begun, Reply("fine")]) as fake, proxied(store, fake.url) as proxy:
        with client("anthropic", proxy.variables) as sdk:
            first = [{"role": "user", "content": "go"}]
            given: dict[str, Any] = {"model": "m", "max_tokens": 9000}
            with sdk.messages.stream(messages=first, **given) as stream:
                for event in stream:
                    if event.type == "text":
                        break
            sdk.messages.create(messages=[*first, {"role": "user", "content": "again"}], **given)
        told = proxy.end()
    assert told == {"recorded": 2, "broke": 1, "passed": 0, "sessions": 1, "first": "s"}
    with open_log(str(store)) as log:
        found = [one.type for one in log.read("s").events()]
    assert found.count("attempt.answered") == 2 and "attempt.lost" not in found


def test_a_client_chooses_the_session_by_a_header(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with FakeProvider(always("hi")) as fake, proxied(store, fake.url) as proxy:
        said: dict[str, list[Any]] = {"one": [], "two": []}
        for name in ("one", "two", "one"):
            said[name].append({"role": "user", "content": name})
            with client("openai-chat", proxy.variables) as sdk:
                sdk.chat.completions.create(
                    model="m", messages=said[name], extra_headers={"X-Sawlog-Session": name},
                )  # fmt: skip
            said[name].append({"role": "assistant", "content": "hi"})
        assert all("x-sawlog-session" not in one.headers for one in fake.requests)
        told = proxy.end()
    assert (told["recorded"], told["sessions"]) == (3, 3)  # `s` was asked for, and holds nothing
    assert [len(packets(store, name)) for name in ("one", "two")] == [2, 1]


def test_curl_and_node_are_recorded_like_any_other(tmp_path: Path) -> None:
    """Programs that are no Python: bytes in the log are theirs, and the answer is whole."""
    store = tmp_path / "s.db"
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "h\u00e9"}]}
    programs = {
        "curl": ["-sS", "-H", "content-type: application/json", "-H", f"x-api-key: {KEY}"]
        + ["-H", "anthropic-version: 2023-06-01", "--data-binary", json.dumps(body)]
        + ["--compressed"],
        "node": ["-e", _NODE],
    }
    here = {name: shutil.which(name) for name in programs}
    if not any(here.values()):
        pytest.skip("neither curl nor node is installed")
    with FakeProvider(always("h\u00e9")) as fake, proxied(store, fake.url) as proxy:
        url = proxy.variables["ANTHROPIC_BASE_URL"] + "/v1/messages"
        for name, path in here.items():
            if path is None:
                continue
            done = subprocess.run(
                [path, *programs[name], url], capture_output=True, timeout=60, check=True
            )
            assert json.loads(done.stdout)["content"][0]["text"] == "h\u00e9", name
            assert done.stdout.strip() == fake.requests[-1].answer.strip(), name
        proxy.end()
    names = ("s", "s/2")[: len(fake.bodies())]
    assert [body for name in names for body in packets(store, name)] == fake.bodies()
    assert is_clean(store)
    missing = [name for name, path in here.items() if path is None]
    if missing:
        pytest.skip(f"not installed: {missing}")


_NODE = """
const body = JSON.stringify({model: "m", max_tokens: 9,
  messages: [{role: "user", content: "from node"}]});
fetch(process.argv[1], {method: "POST", body, headers: {"content-type": "application/json",
  "x-api-key": "sk-none-of-all-keys", "anthropic-version": "2023-06-01"}})
  .then(r => r.text()).then(t => process.stdout.write(t));
"""
