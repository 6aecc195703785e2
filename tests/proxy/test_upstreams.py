"""Where a request leads, by its method, its path and the names that it gives."""

from __future__ import annotations

import pytest

from sawlog.proxy.running import environment
from sawlog.proxy.upstreams import (
    PROVIDERS,
    Elsewhere,
    check_host,
    from_environment,
    place,
    upstreams,
    variables,
)
from sawlog.store.errors import ConfigError

ANTHROPIC = "https://api.anthropic.com"
KNOWN = upstreams({"openai": "http://box:8000/gate/v1/", "deepseek": "http://ds/beta"})


@pytest.mark.parametrize(
    ("target", "url", "api"),
    [
        ("/anthropic/v1/messages", f"{ANTHROPIC}/v1/messages", "anthropic"),
        ("/anthropic/v1/messages?beta=1", f"{ANTHROPIC}/v1/messages?beta=1", "anthropic"),
        ("/anthropic/v1/messages/count_tokens", f"{ANTHROPIC}/v1/messages/count_tokens", ""),
        ("/anthropic/v1/messages/batches", f"{ANTHROPIC}/v1/messages/batches", ""),
        ("/openai/v1/chat/completions", "http://box:8000/gate/v1/chat/completions", "openai-chat"),
        ("/openai/v1/responses", "http://box:8000/gate/v1/responses", "openai-responses"),
        ("/openai/v1/threads/t/messages", "http://box:8000/gate/v1/threads/t/messages", ""),
        ("/openai/v1", "http://box:8000/gate/v1", ""),
        ("/deepseek/chat/completions", "http://ds/beta/chat/completions", "deepseek-chat"),
        ("/deepseek/anthropic/v1/messages", "http://ds/beta/anthropic/v1/messages", "anthropic"),
    ],
)
def test_a_mount_leads_to_its_provider(target: str, url: str, api: str) -> None:
    found = place(KNOWN, "POST", target)
    assert (found.url, found.api) == (url, api)


@pytest.mark.parametrize(
    ("base", "api"),
    [
        ("https://api.deepseek.com", "deepseek-chat"),
        ("http://box:11434", "openai-chat"),
    ],
)
def test_openais_clients_may_be_told_of_other_servers(base: str, api: str) -> None:
    known = upstreams({"openai": base})
    assert place(known, "POST", "/openai/v1/chat/completions").api == api


@pytest.mark.parametrize(
    "target", ["/anthropicx/v1", "/openai/v2/x", "/openai", "//", "/v1/messages"]
)
def test_what_is_no_mount_leads_nowhere(target: str) -> None:
    with pytest.raises(Elsewhere) as refused:
        place(KNOWN, "POST", target)
    assert refused.value.status == 404


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:80", "localhost:9", "[::1]:80", "LocalHost."]
)
def test_loopback_is_this_proxy(host: str) -> None:
    check_host(host, (), "127.0.0.1")


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "10.0.0.2", "[::2]", "[bad", "0x7f"],
)
def test_other_hosts_are_not(host: str) -> None:
    with pytest.raises(Elsewhere):
        check_host(host, ("box",), "10.0.0.1")
    check_host("box:99", ("box",), "10.0.0.1")
    check_host("10.0.0.1:99", ("box",), "10.0.0.1")


@pytest.mark.parametrize(
    "base", ["", "x", "/v1", "ftp://x", "http://", "http://x:y", "http://x:99999", "https://x y"]
)
def test_what_is_no_place_is_refused(base: str) -> None:
    if not base:
        assert upstreams({"anthropic": base})[0].origin == PROVIDERS[0].base
        return
    with pytest.raises(ConfigError):
        upstreams({"anthropic": base})


def test_the_environment_says_where_requests_go_on_to() -> None:
    """An option wins; variables that agree, but for a slash, are one."""
    env = {
        "OPENAI_BASE_URL": "http://a/v1",
        "OPENAI_API_BASE": "http://a/v1/",
        "DEEPSEEK_BASE_URL": "",
    }
    assert from_environment(env, {}) == {"openai": "http://a/v1"}
    assert from_environment(env, {"openai": "http://b/v1"}) == {"openai": "http://b/v1"}


def test_the_environment_of_a_command_is_that_which_is_given_and_the_way_here() -> None:
    given = {"PATH": "/bin", "OPENAI_BASE_URL": "http://a/v1"}
    url = "http://127.0.0.1:9"
    assert environment(given, url) == {"PATH": "/bin", **variables(url)}
