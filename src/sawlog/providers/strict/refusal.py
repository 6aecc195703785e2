"""A request that a provider refuses: the error as a Python value and as that API's JSON."""

from __future__ import annotations

import json

APIS = ("anthropic", "openai-chat", "openai-responses", "deepseek-chat")
"""The request formats that can be checked, by the names of sawlog's renderers."""


class Refusal(Exception):
    """What a provider answers instead of a reply.

    `status` is the HTTP status, `type` the error's type, `message` the provider's sentence,
    `param` the place that OpenAI names, `code` the error's code where the API has one.
    """

    def __init__(
        self,
        status: int,
        type: str,
        message: str,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.message = message
        self.param = param
        self.code = code

    def __str__(self) -> str:
        where = f" (param {self.param})" if self.param else ""
        return f"{self.status} {self.type}: {self.message}{where}"

    def body(self, api: str, request_id: str = "") -> bytes:
        """The JSON body with which `api` sends this refusal."""
        return error_body(api, self.type, self.message, self.param, self.code, request_id)


def error_body(
    api: str, type: str, message: str, param: str | None, code: str | None, request_id: str
) -> bytes:
    """An error in the JSON shape of `api`."""
    error: dict[str, object]
    if api == "anthropic":
        inner: dict[str, object] = {"type": type, "message": message}
        if code:
            inner["details"] = {"error_code": code}
        error = {"type": "error", "error": inner}
        if request_id:
            error["request_id"] = request_id
    else:
        error = {"error": {"message": message, "type": type, "param": param, "code": code}}
    return json.dumps(error, ensure_ascii=False).encode("utf-8")


def invalid(message: str, param: str | None = None, code: str | None = None) -> Refusal:
    """The refusal of a request that is wrong in itself: 400 `invalid_request_error`."""
    return Refusal(400, "invalid_request_error", message, param, code)
