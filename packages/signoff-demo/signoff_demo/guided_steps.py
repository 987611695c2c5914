from __future__ import annotations

from typing import Any

from signoff_demo.guide import ADA, AGENTS, GRACE, LINUS, Step

NAMES = {ADA: "Ada", GRACE: "Grace", LINUS: "Linus"}


def run_as_ada(command: str) -> dict[str, Any]:
    return {"as": ADA, "channel": AGENTS, "command": command}


def on_card(text: str, person: str, words: str, status: str) -> Step:
    """The card then begins with `status`."""
    return Step(
        text,
        lambda seen: seen.is_card(words, status),
        f"Show {NAMES[person]} the card",
        {"as": person},
        lambda seen: seen.card(words),
    )


def open_inbox(channel: str) -> Step:
    return Step(
        "Open Grace's inbox. It is a new tab; press *Sign in* there.",
        lambda seen: seen.received_ephemeral(GRACE, "/sign-in/link/"),
        "Open Grace's inbox",
        {"as": GRACE, "channel": channel, "command": "/approvals inbox", "inbox": True},
    )
