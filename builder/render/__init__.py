"""Renderers: a packet's entries as the exact bytes of a request. Numbered, frozen once released.

`start` opens a rendering under a header and a profile; `add` appends whole messages; `request`
gives the request for what was added so far and may be called again after more was added, at the
cost of what is new. What the four share, and what the notes of a request mean, says
`sawlog.builder.render.base`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sawlog.builder.packet import Binding, Header
from sawlog.builder.profiles import Profile
from sawlog.builder.render.anthropic import Anthropic
from sawlog.builder.render.anthropic_marked import AnthropicMarked
from sawlog.builder.render.base import Rendering
from sawlog.builder.render.deepseek_chat import DeepSeekChat
from sawlog.builder.render.openai_chat import OpenAIChat
from sawlog.builder.render.openai_chat_signed import OpenAIChatSigned
from sawlog.builder.render.openai_responses import OpenAIResponses
from sawlog.builder.render.wire import wire_name
from sawlog.store.errors import ConfigError, UnknownNumber
from sawlog.store.events.base import Named

__all__ = [
    "RENDERERS",
    "Rendering",
    "renderer_for",
    "renderer_of",
    "start",
    "unmarked",
    "wire_name",
]

RENDERERS: dict[Named, type[Rendering]] = {
    Named("anthropic", 1): Anthropic,
    Named("openai-chat", 1): OpenAIChat,
    Named("openai-responses", 1): OpenAIResponses,
    Named("deepseek-chat", 1): DeepSeekChat,
    Named("anthropic", 2): AnthropicMarked,
    Named("openai-chat", 2): OpenAIChatSigned,
}
"""All renderers of this release, by name and number; none is ever taken out or changed."""


def renderer_for(api: str) -> Named:
    """The renderer of an API's base profile. Raises ConfigError for an API that has none."""
    return _newest(api, marks=False, signs=False)


def renderer_of(profile: Profile, *, marks: bool = False) -> Named:
    """The newest renderer that does what the profile needs, with cache marks or without.

    Raises ConfigError when marks are wanted and the profile names no rule for them.
    """
    if marks and profile.cache == "none":
        raise ConfigError(
            f"the profile {profile.named} names no rule for cache marks: use a model that has one "
            "(`sawlog profiles` lists them), give a profile with cache set, or drop cache_marks"
        )
    return _newest(profile.api, marks=marks, signs=profile.needs.first_signature)


def unmarked(renderer: Named) -> Named:
    """The renderer that gives the same bytes without cache marks: what prefixes are compared by.

    Raises UnknownNumber for a renderer that is not installed.
    """
    found = _installed(renderer)
    return _newest(found.api, marks=False, signs=found.signs) if found.marks else renderer


def _newest(api: str, *, marks: bool, signs: bool) -> Named:
    of_api = {name: one for name, one in RENDERERS.items() if one.api == api}
    found = [name for name, one in of_api.items() if (one.marks, one.signs) == (marks, signs)]
    if not found:
        known = ", ".join(dict.fromkeys(renderer.api for renderer in RENDERERS.values()))
        raise ConfigError(f"there is no renderer for the API {api!r}; known are {known}")
    return max(found, key=lambda name: name.number)


def _installed(renderer: Named) -> type[Rendering]:
    found = RENDERERS.get(renderer)
    if found is None:
        raise UnknownNumber(f"the renderer {renderer} is not installed")
    return found


def start(
    header: Header,
    profile: Profile,
    bindings: Callable[[int], Binding | None],
    *,
    headers: Sequence[tuple[str, str]] = (),
    account: str | None = None,
    prefixed: bool = True,
) -> Rendering:
    """An empty rendering under a header and its profile.

    `bindings` says what the bound items of a step are bound to. `headers` are HTTP headers of the
    caller that change what the model does. `account` is the organisation or label that the request
    goes out under; None: the accounts of bound items are not compared. Not `prefixed`: requests
    may come without their prefix digest, which then is not worked out.
    Raises UnknownNumber for a renderer that is not installed, ConfigError when header, profile and
    renderer do not belong together, or a parameter or HTTP header is not the caller's to set.
    """
    renderer = _installed(header.renderer)
    if not header.api == profile.api == renderer.api:
        raise ConfigError(
            f"header ({header.api}), profile ({profile.api}) and renderer ({renderer.api}) are of "
            "different APIs"
        )
    if header.profile != profile.named:
        raise ConfigError(f"the header names the profile {header.profile}, not {profile.named}")
    return renderer(header, profile, bindings, headers, account, prefixed=prefixed)
