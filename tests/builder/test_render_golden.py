"""One small packet as each API gets it, byte for byte: renderers are frozen with these (law 8)."""

from __future__ import annotations

import pytest

from sawlog.builder.packet import Entry
from sawlog.providers.strict import check
from tests.builder.entries import (
    THOUGHTS,
    bound,
    call,
    entry,
    rendered,
    result,
    says,
    system,
    tool,
    user,
)

PARAMS = '{"max_tokens": 100, "temperature":1e0}'


def packet(api: str) -> list[Entry]:
    """A packet that has something of everything."""
    kind, source = THOUGHTS[api]
    return [
        system("Fix bugs.\nRun the tests."),
        system("Be brief.", "developer"),
        tool("read_file", description="Reads a file"),
        user('größer → "7" <b>'),
        bound(kind, api, source, step=1, readable="hm"),
        says("I look.", step=1, first=False),
        call("call_1", "read_file", '{"path": "a.py"}', step=1),
        call("call_2", "read_file", "{broken", step=1),
        result("call_1", "x = 1\n"),
        result("call_2", "This call was not started.", status="not_started"),
        entry("late", "1 < 2", name="read_file"),
        user(""),
    ]


ANTHROPIC = (
    '{"max_tokens": 100, "temperature":1e0'
    ',"model":"some-model"'
    r',"system":[{"type":"text","text":"Fix bugs.\nRun the tests."},{"type":"text"'
    ',"text":"Be brief."}]'
    ',"tools":[{"name":"read_file","description":"Reads a file"'
    ',"input_schema":{"type": "object", "properties": {}}}]'
    r',"messages":[{"role":"user","content":[{"type":"text","text":"größer → \"7\" <b>"}]}'
    ',{"role":"assistant","content":[{"type":"text","text":"I look."}'
    ',{"type":"tool_use","id":"call_1","name":"read_file"'
    ',"input":{"path": "a.py"}}'
    ',{"type":"tool_use","id":"call_2","name":"read_file"'
    ',"input":{"raw":"{broken"}}]}'
    ',{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1"'
    r',"content":"x = 1\n"}'
    ',{"type":"tool_result","tool_use_id":"call_2"'
    ',"content":"This call was not started.","is_error":true}]}'
    ',{"role":"user","content":[{"type":"text"'
    r',"text":"<sawlog:late name=\"read_file\" trust=\"untrusted\">\n1 &lt; 2\n</sawlog:la'
    'te>"}]}'
    ',{"role":"user","content":[{"type":"text","text":"(empty)"}]}]}'
)
OPENAI_CHAT = (
    '{"max_tokens": 100, "temperature":1e0'
    ',"model":"some-model"'
    ',"tools":[{"type":"function","function":{"name":"read_file"'
    ',"description":"Reads a file","parameters":{"type": "object", "properties": {}}}}]'
    r',"messages":[{"role":"system","content":"Fix bugs.\nRun the tests."}'
    ',{"role":"developer","content":"Be brief."}'
    r',{"role":"user","content":"größer → \"7\" <b>"}'
    ',{"role":"assistant","content":"I look."'
    ',"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read_file"'
    r',"arguments":"{\"path\": \"a.py\"}"}},{"id":"call_2","type":"function"'
    ',"function":{"name":"read_file","arguments":"{broken"}}]}'
    r',{"role":"tool","tool_call_id":"call_1","content":"x = 1\n"}'
    ',{"role":"tool","tool_call_id":"call_2","content":"This call was not started."}'
    r',{"role":"user","content":"<sawlog:late name=\"read_file\" trust=\"untrusted\">\n1 &'
    r'lt; 2\n</sawlog:late>"}'
    ',{"role":"user","content":""}]}'
)
OPENAI_RESPONSES = (
    '{"max_tokens": 100, "temperature":1e0'
    ',"model":"some-model"'
    r',"instructions":"Fix bugs.\nRun the tests."'
    ',"tools":[{"type":"function","name":"read_file","description":"Reads a file"'
    ',"parameters":{"type": "object", "properties": {}},"strict":false}]'
    ',"input":[{"type":"message","role":"developer","content":[{"type":"input_text"'
    ',"text":"Be brief."}]}'
    ',{"type":"message","role":"user","content":[{"type":"input_text"'
    r',"text":"größer → \"7\" <b>"}]}'
    ',{"type":"message","role":"assistant","content":[{"type":"output_text"'
    ',"text":"I look."}]}'
    ',{"type":"function_call","call_id":"call_1","name":"read_file"'
    r',"arguments":"{\"path\": \"a.py\"}"}'
    ',{"type":"function_call","call_id":"call_2","name":"read_file"'
    ',"arguments":"{broken"}'
    r',{"type":"function_call_output","call_id":"call_1","output":"x = 1\n"}'
    ',{"type":"function_call_output","call_id":"call_2"'
    ',"output":"This call was not started."}'
    ',{"type":"message","role":"user","content":[{"type":"input_text"'
    r',"text":"<sawlog:late name=\"read_file\" trust=\"untrusted\">\n1 &lt; 2\n</sawlog:la'
    'te>"}]}'
    ',{"type":"message","role":"user","content":[{"type":"input_text","text":""}]}]}'
)
DEEPSEEK_CHAT = (
    '{"max_tokens": 100, "temperature":1e0'
    ',"model":"some-model"'
    ',"tools":[{"type":"function","function":{"name":"read_file"'
    ',"description":"Reads a file","parameters":{"type": "object", "properties": {}}}}]'
    r',"messages":[{"role":"system","content":"Fix bugs.\nRun the tests."}'
    ',{"role":"system","content":"Be brief."}'
    r',{"role":"user","content":"größer → \"7\" <b>"}'
    ',{"role":"assistant","content":"I look.","reasoning_content":""'
    ',"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read_file"'
    r',"arguments":"{\"path\": \"a.py\"}"}},{"id":"call_2","type":"function"'
    ',"function":{"name":"read_file","arguments":"{broken"}}]}'
    r',{"role":"tool","tool_call_id":"call_1","content":"x = 1\n"}'
    ',{"role":"tool","tool_call_id":"call_2","content":"This call was not started."}'
    r',{"role":"user","content":"<sawlog:late name=\"read_file\" trust=\"untrusted\">\n1 &'
    r'lt; 2\n</sawlog:late>"}'
    ',{"role":"user","content":""}]}'
)

GOLDEN = {
    "anthropic": (
        ANTHROPIC,
        "05923b63acdddd600bef575f8c400c3312a6a730dd919e2dc42c9fa43975e410",
        "52dc7e9c91af5cc5d304d8f00fc84fda018fbbfa4a40fa55cf516b6a505aeac5",
    ),
    "openai-chat": (
        OPENAI_CHAT,
        "55eaf0470d26bef3bc26d0b55083550ae57d90bc55cd10d3518674c305dbb9d8",
        "eab07e87ec776ece1e07aa71661ab9575f21f55cf0e275fb96eb2c86894088a5",
    ),
    "openai-responses": (
        OPENAI_RESPONSES,
        "022203b0df1e790350343d1002ccb06295bc23e6974a16fecf58e2be09db02fb",
        "7972dfe737ad28263f0593e751383eea4ee28e1d159c17574a20a0ea7f4f26a4",
    ),
    "deepseek-chat": (
        DEEPSEEK_CHAT,
        "da7a21aaecdb271157b893109931c6945041fcab644ee2a587d18e62701f3429",
        "ddbc6d38e80a23ef65f1a0af63f2745012a562edd270736e1bf93e87cbbb3cb3",
    ),
}


@pytest.mark.parametrize("api", GOLDEN)
def test_the_bytes_are_golden(api: str) -> None:
    body, digest, prefix = GOLDEN[api]
    request = rendered(api, packet(api), PARAMS)
    assert request.body.decode() == body
    assert (request.digest, request.prefix) == (digest, prefix)
    check(api, request.body, dict(request.headers))


@pytest.mark.parametrize(
    ("api", "path", "headers"),
    [
        ("anthropic", "/v1/messages", (("anthropic-version", "2023-06-01"),)),
        ("openai-chat", "/v1/chat/completions", ()),
        ("openai-responses", "/v1/responses", ()),
        ("deepseek-chat", "/chat/completions", ()),
    ],
)
def test_method_path_and_headers_are_the_apis(
    api: str, path: str, headers: tuple[tuple[str, str], ...]
) -> None:
    request = rendered(api, packet(api), PARAMS)
    assert (request.method, request.path, request.headers) == ("POST", path, headers)
