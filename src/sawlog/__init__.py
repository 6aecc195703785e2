"""sawlog: the log of what the model saw.

Public names load on first use. Importing any part of the package runs this file first, and the
pure parts must not bring the database along.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sawlog import errors
    from sawlog.agentlog import AgentLog, open
    from sawlog.audit.recorded import Recorded, RecordedStep
    from sawlog.builder.channels import CHANNELS, Channel, Channels
    from sawlog.builder.gateway import GatewayVerdict
    from sawlog.builder.item import Authority, Kind, Retention, Sensitivity, Trust
    from sawlog.builder.policy import Rules
    from sawlog.builder.profiledoc import profile_from_toml
    from sawlog.builder.profiles import Profile, profile_of
    from sawlog.builder.selection.policydoc import policy_from, policy_from_toml
    from sawlog.providers.httpclient import aclient, client
    from sawlog.recorder.clients import record
    from sawlog.recorder.context import recording
    from sawlog.store.errors import SawlogError
    from sawlog.store.events.registry import event
    from sawlog.store.objects import FileObjects
    from sawlog.testing.answering import replay, replaying
    from sawlog.testing.faking import fake
    from sawlog.work.call import Call
    from sawlog.work.loading import LOADING, just_in_time
    from sawlog.work.plan import Plan
    from sawlog.work.reply import Reply
    from sawlog.work.rewinding import Rewound
    from sawlog.work.session import Session
    from sawlog.work.step import Step
    from sawlog.work.summarising import Provider
    from sawlog.work.toolrun import ToolRun
    from sawlog.work.tools import tool
    from sawlog.work.triggers import Compaction

    __version__: str

__all__ = [
    "CHANNELS",
    "LOADING",
    "AgentLog",
    "Authority",
    "Call",
    "Channel",
    "Channels",
    "Compaction",
    "FileObjects",
    "GatewayVerdict",
    "Kind",
    "Plan",
    "Profile",
    "Provider",
    "Recorded",
    "RecordedStep",
    "Reply",
    "Retention",
    "Rewound",
    "Rules",
    "SawlogError",
    "Sensitivity",
    "Session",
    "Step",
    "ToolRun",
    "Trust",
    "__version__",
    "aclient",
    "client",
    "errors",
    "event",
    "fake",
    "just_in_time",
    "open",
    "policy_from",
    "policy_from_toml",
    "profile_from_toml",
    "profile_of",
    "record",
    "recording",
    "replay",
    "replaying",
    "tool",
]

# Public name -> the module that holds it, or the module of that name itself. Whatever is named here
# is imported above under TYPE_CHECKING, too, and listed in __all__.
_EXPORTS: dict[str, str] = {
    "AgentLog": "sawlog.agentlog",
    "Authority": "sawlog.builder.item",
    "CHANNELS": "sawlog.builder.channels",
    "Call": "sawlog.work.call",
    "Compaction": "sawlog.work.triggers",
    "Channel": "sawlog.builder.channels",
    "Channels": "sawlog.builder.channels",
    "FileObjects": "sawlog.store.objects",
    "GatewayVerdict": "sawlog.builder.gateway",
    "Kind": "sawlog.builder.item",
    "LOADING": "sawlog.work.loading",
    "Plan": "sawlog.work.plan",
    "Profile": "sawlog.builder.profiles",
    "Provider": "sawlog.work.summarising",
    "Recorded": "sawlog.audit.recorded",
    "RecordedStep": "sawlog.audit.recorded",
    "Reply": "sawlog.work.reply",
    "Retention": "sawlog.builder.item",
    "Rewound": "sawlog.work.rewinding",
    "Rules": "sawlog.builder.policy",
    "SawlogError": "sawlog.store.errors",
    "Sensitivity": "sawlog.builder.item",
    "Session": "sawlog.work.session",
    "Step": "sawlog.work.step",
    "ToolRun": "sawlog.work.toolrun",
    "Trust": "sawlog.builder.item",
    "aclient": "sawlog.providers.httpclient",
    "client": "sawlog.providers.httpclient",
    "errors": "sawlog.errors",
    "event": "sawlog.store.events.registry",
    "fake": "sawlog.testing.faking",
    "just_in_time": "sawlog.work.loading",
    "open": "sawlog.agentlog",
    "policy_from": "sawlog.builder.selection.policydoc",
    "policy_from_toml": "sawlog.builder.selection.policydoc",
    "profile_from_toml": "sawlog.builder.profiledoc",
    "profile_of": "sawlog.builder.profiles",
    "record": "sawlog.recorder.clients",
    "recording": "sawlog.recorder.context",
    "replay": "sawlog.testing.answering",
    "replaying": "sawlog.testing.answering",
    "tool": "sawlog.work.tools",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # slow to load, and seldom asked for

        value: object = version("sawlog")
    elif name in _EXPORTS:
        module = import_module(_EXPORTS[name])
        value = module if module.__name__.endswith(f".{name}") else getattr(module, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
