"""The event types of sawlog: the shared language of all rooms."""

from __future__ import annotations

from sawlog.store.events import conversation, effects, inbox, items, lifecycle, steps, world
from sawlog.store.events.registry import Registry

CORE = Registry(
    (
        lifecycle.SessionCreated,
        lifecycle.SessionForked,
        lifecycle.HistoryRewound,
        lifecycle.HistoryTrimmed,
        lifecycle.CompactionStarted,
        lifecycle.CompactionCompleted,
        lifecycle.CompactionFailed,
        lifecycle.ForeignRecord,
        conversation.MessageUser,
        conversation.MessageSystem,
        conversation.MessageAssistant,
        conversation.ToolRequested,
        conversation.ToolChecked,
        conversation.ToolStarted1,
        conversation.ToolStarted,
        conversation.ToolFinished,
        conversation.ToolDenied,
        conversation.ApprovalRequested,
        conversation.ApprovalDecided,
        effects.EffectIntended,
        effects.EffectSettled,
        effects.EffectReconciled,
        world.ObservationRecorded,
        world.ToolsChanged,
        world.WorldChanged,
        world.FileObserved,
        world.FileChanged,
        items.ItemOffered,
        items.ItemWithdrawn,
        items.TaskSet,
        inbox.InboxInjected,
        inbox.InboxClaimed,
        inbox.InboxCancelled,
        steps.PacketBuilt,
        steps.PacketRecorded,
        steps.AttemptSent,
        steps.AttemptAnswered,
        steps.AttemptRefused,
        steps.AttemptLost,
        steps.AttemptRunning,
        steps.StepCompleted,
        steps.StepFailed,
        steps.StepRefused,
        steps.StepAbandoned,
        steps.PolicySet,
        steps.MeasureRecorded,
    )
)
"""The types that come with this release; `CORE.extended(...)` adds others."""
