"""What to try, in words: on the sandbox's page and in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackbot.demo.rules import SECONDS

AGENTS, REVIEWS = "C0AGENTS", "C0REVIEW"


def _ask(text: str, order: int) -> dict[str, Any]:
    command = f"/agent run refunds please refund order {order}"
    return {"text": text, "as": "U0ADA", "channel": AGENTS, "command": command}


def for_refunds() -> dict[str, Any]:
    """The page's panel for the refund agent."""
    return {
        "title": "What to try",
        "steps": [
            _ask(
                "*A small refund.* Ada asks the agent to refund order 2, which cost 389.00. Up to 1,000.00 nobody "
                "is asked: it happens at once. Open the thread to read the agent's answer.",
                2,
            ),
            _ask(
                "*A large one.* Order 7 cost 1,249.50, so people must decide. The agent says that it waits, and "
                "a card appears in #refund-reviews.",
                7,
            ),
            {
                "text": "*The chat goes on.* In the thread of that run, reply: what is the status of order 7?",
                "as": "U0ADA",
                "channel": AGENTS,
            },
            {
                "text": "*Only reviewers decide.* Press Approve as Ada: she is not in @finance, and is told so. Had "
                "Grace asked, she could not approve it either: nobody decides about their own request.",
                "as": "U0ADA",
                "channel": REVIEWS,
            },
            {
                "text": "*Approve.* Grace is in @finance and may decide. The card shows who approved, that the tool "
                "ran, and how it ended; its thread keeps the history.",
                "as": "U0GRACE",
                "channel": REVIEWS,
            },
            _ask("*Reject.* Ask for order 5 as Ada, then reject it as Grace or Linus, with a reason.", 5),
            _ask(
                f"*Nobody answers.* Order 8 cost 7,320.00; its rule leaves {SECONDS} seconds. Watch the card "
                "expire, then press Ask again as Ada.",
                8,
            ),
            _ask(
                "*Pull the plug.* Ask for order 6, then run `kill -9` on the service: the terminal shows its "
                "process number. It is started again; approve, and the refund is made once.",
                6,
            ),
        ],
    }


def for_agents(names: Sequence[str]) -> dict[str, Any]:
    """The page's panel for somebody's own agents."""
    command = f"/agent run {names[0]} "
    return {
        "title": "Your agents",
        "steps": [
            {"text": "*Which agents are there?*", "as": "U0ADA", "channel": AGENTS, "command": "/agent list"},
            {
                "text": "*Ask.* The model is a script: it calls a tool when your words fit the tool's name, or "
                "write the call itself, such as `my_tool name=value`.",
                "as": "U0ADA",
                "channel": AGENTS,
                "command": command,
            },
            {
                "text": "*Decide.* Cards appear in the channel of your checkpoints; Grace and Linus are reviewers.",
                "as": "U0GRACE",
            },
        ],
    }


def in_terminal(names: Sequence[str] | None) -> str:
    """The same in short, for the refund agent (None) or for these agents."""
    if names is not None:
        return (
            f"  Act as Ada (top left), in #agents:   /agent run {names[0]} <what you want>\n"
            "  Act as Grace or Linus to decide about the cards."
        )
    return (
        "  1. As Ada, in #agents:   /agent run refunds please refund order 2\n"
        "     389.00 is below the limit of 1,000.00: refunded at once.\n"
        "  2. As Ada:               /agent run refunds please refund order 7\n"
        "     1,249.50 is above it: a card appears in #refund-reviews.\n"
        "  3. As Grace or Linus, in #refund-reviews: Approve, or Reject with a reason.\n"
        "     Orders 5, 6 and 7 are above the limit.\n"
        f"  4. Order 8 (7,320.00) expires after {SECONDS} seconds if nobody decides."
    )
