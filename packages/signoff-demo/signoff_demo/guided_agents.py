"""The steps of the guide for agents of the user's own."""

from __future__ import annotations

from collections.abc import Sequence

from signoff_demo.actors import ADA, AGENTS, GRACE
from signoff_demo.guide import Guide, Scene, Step
from signoff_demo.guided_steps import open_inbox


def for_agents(names: Sequence[str], *, scripted: bool) -> Guide:
    """With a `scripted` model, explain how to phrase tasks."""
    how = "Write what the agent should do, after its name."
    if scripted:
        how += (
            " The model is a script: use the tool's name, as in `delete_records table_name=users count=50`."
        )
    begin = Scene(
        "Run your agent",
        f"Loaded: {', '.join(names)}. Cards go to #reviews, unless your checkpoints.toml names another channel.",
        [
            Step(
                how,
                lambda seen: seen.run() is not None,
                "Write as Ada",
                {"as": ADA, "channel": AGENTS, "command": f"/agent run {names[0]} ", "draft": True},
            ),
            Step(
                "As *Grace* or *Linus*, decide on the card. Both are in every user group here.",
                lambda seen: any(seen.is_card("", status) for status in ("Approved", "Rejected")),
                "Show Grace the card",
                {"as": GRACE},
                lambda seen: seen.card(),
            ),
        ],
        "The card shows the outcome, and the run's thread has the agent's answer.",
    )
    inbox = Scene(
        "Open it in the browser",
        "Reviewers also have an inbox outside Slack.",
        [open_inbox(AGENTS)],
        "It has the same requests, with all arguments and the history.",
    )
    return Guide("Your agents", (begin, inbox), cast=())  # checkpoints.toml may name other people
