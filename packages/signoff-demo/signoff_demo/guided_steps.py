"""What the steps of the guide share."""

from __future__ import annotations

from typing import Any

from signoff_demo.actors import ADA, AGENTS, GRACE, LINUS, Actors, Message
from signoff_demo.examples import shop
from signoff_demo.guide import Press, Proof, Step
from signoff_demo.played import LOOK_SECONDS

NAMES = {ADA: "Ada", GRACE: "Grace", LINUS: "Linus"}


def run_as_ada(command: str) -> dict[str, Any]:
    """Return the act of a step in which Ada runs this command in the channel of agents."""
    return {"as": ADA, "channel": AGENTS, "command": command}


def on_card(text: str, person: str, words: str, status: str, press: Press | None = None) -> Step:
    """The card then begins with `status`. Without `press`, the person approves."""
    return Step(
        text,
        lambda seen: seen.is_card(words, status),
        f"Show {NAMES[person]} the card",
        {"as": person},
        lambda seen: seen.card(words),
        press or approving(person),
    )


def approving(person: str) -> Press:
    """Return the press by which this person approves a card."""
    return lambda actors, card: actors.approve(person, card)


def rejecting(person: str, **reason: str) -> Press:
    """Return the press by which this person rejects a card, with `reason` as fields of the form."""
    return lambda actors, card: actors.reject(
        person, card, {f"signoff:{name}": text for name, text in reason.items()}
    )


async def watch(_actors: Actors, _card: Message) -> None:
    """The person only waits."""


def order(number: int, expected: str, within: float = LOOK_SECONDS) -> Proof:
    """The order's status in the shop, with its cause: `REFUND_REJECTED, expired`."""

    async def look(_: Actors) -> str:
        found = await shop.find(number)
        if found is None:
            return "no such order"
        return f"{found.status}, {found.cause}" if found.cause else found.status

    return Proof(f"order {number}", expected, look, within)


def open_inbox(channel: str) -> Step:
    """Return the step in which Grace asks for her sign-in link and opens the inbox."""
    return Step(
        "Open Grace's inbox. It is a new tab; press *Sign in* there.",
        lambda seen: seen.received_ephemeral(GRACE, "/sign-in/link/"),
        "Open Grace's inbox",
        {"as": GRACE, "channel": channel, "command": "/approvals inbox", "inbox": True},
    )
