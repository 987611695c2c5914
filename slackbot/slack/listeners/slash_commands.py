"""Slash commands; only the writer sees the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.database.errors import DatabaseRefuses
from agent.domain.errors import Refused
from slackbot.cards import Card, misunderstood_command, refusal_text
from slackbot.cards.command_names import AGENT, APPROVALS
from slackbot.slack.listeners import agent_command, approvals_command
from slackbot.slack.listeners.command_input import SlashCommand, Verb
from slackbot.slack.listeners.context import ListenerContext, log_failed
from slackbot.slack.listeners.run_starts import closest_name

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


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register `/agent` and `/approvals`; the answer comes with the acknowledgement, for the writer only."""

    def command(name: str, verbs: Mapping[str, Verb], hidden: Mapping[str, Verb]) -> None:
        @app.command(ctx.commands.spelled(name))
        async def command(ack: AsyncAck, body: dict[str, Any]) -> None:
            said = SlashCommand.read(body)
            act = verbs.get(said.verb) or hidden.get(said.verb)
            card = await _safely(ctx, said, act) if act else _not_understood(name, said, verbs, ctx)
            if card is None:
                await ack()
            else:
                await ack(text=card.text, blocks=card.blocks or None, response_type="ephemeral")

    command(AGENT, agent_command.VERBS, agent_command.HIDDEN)
    command(APPROVALS, approvals_command.VERBS, approvals_command.HIDDEN)


async def _safely(ctx: ListenerContext, said: SlashCommand, act: Verb) -> Card | None:
    """Answer failures, too: an unanswered command shows only an error code."""
    try:
        async with ctx.in_budget():
            return await act(ctx, said)
    except Refused as refused:
        return Card(refusal_text(refused.sentence), [])
    except Exception as error:
        log_failed("a command failed", error)
        if isinstance(error, DatabaseRefuses):
            return Card(refusal_text(error.sentence), [])
        return Card(ctx.commands.spelled(_WHEN_FAILED.get(said.verb, FAILED)), [])


def _not_understood(name: str, said: SlashCommand, verbs: Mapping[str, Verb], ctx: ListenerContext) -> Card:
    names = ctx.commands
    typed = names.spelled(name)
    if name == AGENT and ctx.agents.find(said.verb):
        guess = f"{typed} run {said.verb} {said.rest}" if said.rest else None
        problem = f'To start an agent, type "{typed} run {said.verb} …".'
        return misunderstood_command(name, problem, names, guess=guess, about="run")
    near = closest_name(said.verb, verbs)
    hint = f'; did you mean "{typed} {near}"?' if near else "."
    guess = f"{typed} {near} {said.rest}".strip() if near else None
    return misunderstood_command(name, f'There is no "{typed} {said.verb[:40]}"{hint}', names, guess=guess)
