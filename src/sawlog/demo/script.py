"""What the demo's model says: the script that the fake provider plays, answer by answer."""

from __future__ import annotations

from typing import Any

SYSTEM = "You mend a small Python repository. Run the tests before you say that you are done."
TASK = "test_an_order_of_yesterday_is_refunded fails. Find out why, and mend it."
LATER = "A colleague touched the repository meanwhile. Is refunds.py still right?"
AFTERWARDS = "Write one line about the mended bug for the changelog."
OTHERWISE = "Leave that. Which test guards the last day of the window?"
API = "anthropic"
MODEL = "claude-sonnet-4-5"
PARAMETERS: dict[str, Any] = {
    "max_tokens": 4096,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}

ANSWERS: list[dict[str, Any]] = [
    {
        "thinking": "First see what the code and the tests say.",
        "text": "I read the code and its tests.",
        "calls": [
            {"name": "read_file", "arguments": {"path": "refunds.py"}},
            {"name": "read_file", "arguments": {"path": "test_refunds.py"}},
        ],
    },
    {
        "text": "The comparison looks turned round. I run the tests to see which ones fail.",
        "calls": [{"name": "run_tests"}],
    },
    {
        "thinking": "The run was cut off and nobody knows how it ended. It changes no file.",
        "text": "That run was cut off, so I know nothing from it. The bug is plain; I mend it.",
        "calls": [
            {
                "name": "edit_file",
                "arguments": {
                    "path": "refunds.py",
                    "old": "today - ordered > WINDOW",
                    "new": "today - ordered <= WINDOW",
                },
            }
        ],
    },
    {
        "text": "The late report shows the old failures. I run the tests on what I changed.",
        "calls": [{"name": "run_tests"}],
    },
    {"text": "Mended: an order may be refunded for 30 days. All three tests pass."},
    {
        "thinking": "The notice says that refunds.py is not as I saw it. Read it again.",
        "text": "refunds.py was changed after I read it. I read it again.",
        "calls": [{"name": "read_file", "arguments": {"path": "refunds.py"}}],
    },
    {"text": "It is: only the description was made clearer, the comparison is the mended one."},
    {"text": "Fixed: orders were refunded only after their 30 days, not within them."},
    {"text": "test_the_last_day_counts does."},
]
FORKED_AT = 7
"""The step whose packet the fork goes on from; its own answer is the last one."""
