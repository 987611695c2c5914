"""What to try, in words: on the sandbox's page and in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackbot.demo.rules import SECONDS

AGENTS, REVIEWS = "C0AGENTS", "C0REVIEW"
CRASH = "crash"
"""The lever on the sandbox's page that kills the service."""


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
                "text": "*Details, then approve.* Grace is in @finance. Details shows every argument, the shop's own "
                "facts and what the agent was asked; then Approve. The card shows who approved, that the tool ran, "
                "and how it ended; its thread keeps the history.",
                "as": "U0GRACE",
                "channel": REVIEWS,
            },
            _ask(
                "*Edit.* Ada meant order 4, and asks for 5. As Grace press Edit: 6 is refused, because it needs "
                "stricter approval; put 4. The thread shows what changed. Linus must approve it: an editor alone "
                "may not. The agent is told.",
                5,
            ),
            _ask(
                "*Reject, with a reason.* Ask for order 5 again; as Linus press Reject and pick Wrong customer, or "
                "use your own words. The agent hears them as yours, and may not ask the same again in that run.",
                5,
            ),
            _ask(
                "*Two people.* Order 6 cost 2,450.00, and above 2,000.00 two must approve. Approve as Grace: the card "
                "says that one is missing. Then Linus approves, and the refund is made.",
                6,
            ),
            {
                "text": "*Crash it, at any moment.* Before or after a click, while a refund is asked for, decided or "
                "made: this kills the service (`kill -9`). It is started again, goes on where it stood, and nothing is "
                "refunded twice.",
                "lever": CRASH,
                "label": "Crash the service",
            },
            _ask(
                f"*Nobody answers.* Order 8 cost 7,320.00; its rule leaves {SECONDS} seconds. Halfway its thread "
                "reminds Grace and Linus; then the card expires. Press Ask again as Ada.",
                8,
            ),
            {
                "text": "*Two calls, one yes and one no.* The data manager deletes and notifies; each call has its own "
                "card. Approve one as Grace, reject the other: what was approved runs as soon as it is.",
                "as": "U0ADA",
                "channel": AGENTS,
                "command": "/agent run data_manager delete 50 old records from the users table, and send notification "
                'recipient=ops message="the users table was tidied"',
            },
            {
                "text": "*An agent without a model.* A plain function works, asks, and waits for days if need be; "
                "no answer in time counts as no.",
                "as": "U0ADA",
                "channel": AGENTS,
                "command": "/agent run durable-task move house",
            },
            {
                "text": "*App Home.* Open signoff under Apps, as Grace: what waits for her, with the same buttons, her "
                "requests, running agents, and what was decided.",
                "as": "U0GRACE",
                "channel": REVIEWS,
            },
            {
                "text": "*The inbox in the browser.* The same for people who prefer a list: each request, its history, "
                "runs and reports. The link is Grace's alone and works once.",
                "as": "U0GRACE",
                "channel": REVIEWS,
                "command": "/approvals inbox",
            },
            {
                "text": "*What was decided?* By agent, person, status or time; each entry leads to its thread.",
                "as": "U0GRACE",
                "channel": REVIEWS,
                "command": "/approvals history agent:refunds",
            },
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
        "  3. As Grace or Linus, in #refund-reviews: Details, Edit, Approve, or Reject with a reason.\n"
        "     Orders 5 and 7 need one of them, order 6 (2,450.00) both.\n"
        f"  4. Order 8 (7,320.00) expires after {SECONDS} seconds if nobody decides; then Ask again.\n"
        "  5. App Home (signoff, under Apps) and /approvals history show what waits and what was decided."
    )
