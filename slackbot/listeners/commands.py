"""Slash commands: what was typed becomes an answer that only its writer sees."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.domain.errors import Refused
from slackbot.beginning import may_not
from slackbot.cards import Card, misunderstood, refusal_text
from slackbot.listeners import agent_command, approvals_command
from slackbot.listeners.doors import Doors
from slackbot.listeners.starting import nearest
from slackbot.listeners.typed import Typed

log = logging.getLogger(__name__)

NOT_KNOWN_STARTED = (
    "Something took too long or failed, and it is not known whether anything was started. "
    "Please look at `/agent status` before trying again."
)
NOT_KNOWN_CANCELLED = (
    "Something took too long or failed, and it is not known whether the run was cancelled. "
    "Please look at `/agent status`; cancelling it again is safe."
)
FAILED = "Something took too long or failed. Nothing was changed; please try again."
_WHEN_FAILED = {"run": NOT_KNOWN_STARTED, "cancel": NOT_KNOWN_CANCELLED}

Verb = Callable[[Doors, Typed], Awaitable[Card | None]]
"""What a command does, and its answer; `None` when a modal is the answer."""


def register(app: AsyncApp, doors: Doors) -> None:
    """`/agent` and `/approvals`."""

    def command(name: str, verbs: Mapping[str, Verb], hidden: Mapping[str, Verb]) -> None:
        @app.command(name)
        async def typed(ack: AsyncAck, body: dict[str, Any]) -> None:
            said = Typed.read(body)
            act = verbs.get(said.verb) or hidden.get(said.verb)
            card = await _safely(doors, said, act) if act else _not_understood(name, said, verbs, doors)
            if card is None:
                await ack()
            else:
                await ack(text=card.text, blocks=card.blocks or None, response_type="ephemeral")

    command("/agent", agent_command.VERBS, agent_command.HIDDEN)
    command("/approvals", approvals_command.VERBS, approvals_command.HIDDEN)


async def _safely(doors: Doors, said: Typed, act: Verb) -> Card | None:
    """The answer, or a true word about its failure: an unanswered command shows only an error code."""
    try:
        async with asyncio.timeout(doors.budget):
            return await act(doors, said)
    except Refused as refused:
        standing = await doors.directory.identify(said.person)
        told = may_not(refused.code) if standing.refusal is refused.code else refused.sentence
        return Card(refusal_text(told), [])
    except Exception as error:
        log.exception("a command failed", extra={"action": "listener_failed", "kind": type(error).__name__})
        return Card(_WHEN_FAILED.get(said.verb, FAILED), [])


def _not_understood(name: str, said: Typed, verbs: Mapping[str, Verb], doors: Doors) -> Card:
    if name == "/agent" and doors.agents.find(said.verb):
        guess = f"{name} run {said.verb} {said.rest}" if said.rest else None
        return misunderstood(
            name, f'To start an agent, type "/agent run {said.verb} …".', guess=guess, about="run"
        )
    near = nearest(said.verb, verbs)
    hint = f'; did you mean "{name} {near}"?' if near else "."
    guess = f"{name} {near} {said.rest}".strip() if near else None
    return misunderstood(name, f'There is no "{name} {said.verb[:40]}"{hint}', guess=guess)
