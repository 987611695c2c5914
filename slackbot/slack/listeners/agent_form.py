"""The form that starts an agent is opened, redrawn and submitted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.database.errors import DatabaseRefuses
from slackbot.cards import (
    ACTION_AGENT,
    CALLBACK_AGENT,
    AgentForm,
    agent_modal,
    notice_modal,
    read_agent_modal,
)
from slackbot.cards.quotation import Carried
from slackbot.cards.values import AGENT_BLOCK
from slackbot.slack.listeners.buttons import person_of
from slackbot.slack.listeners.command_input import SlashCommand
from slackbot.slack.listeners.context import ListenerContext, log_failed
from slackbot.slack.listeners.modals import draw, show
from slackbot.slack.listeners.run_starts import begin

NOT_STARTED = "Not started"
FORM_NOT_OPENED = "Slack did not open the form; `/agent run <agent> <task>` starts an agent without it."
NOT_KNOWN = (
    "Something took too long or failed, and it is not known whether the agent was started. Sending this form again "
    "is safe: it starts one run."
)


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register the form that starts an agent: choosing one redraws it, submitting it starts a run."""

    @app.action(ACTION_AGENT)
    async def chosen(ack: AsyncAck, body: dict[str, Any]) -> None:
        await ack()
        view = body.get("view") or {}
        if view.get("callback_id") == CALLBACK_AGENT:
            asked = read_agent_modal(view["state"]["values"], forms(ctx))
            drawn = agent_modal(forms(ctx), asked.agent, carried=_carried(view), task=asked.task)
            ctx.background.start(draw(ctx, view["id"], drawn))

    @app.view(CALLBACK_AGENT)
    async def submitted(ack: AsyncAck, body: dict[str, Any], view: dict[str, Any]) -> None:
        asked = read_agent_modal(view["state"]["values"], forms(ctx))
        agent = ctx.agents.find(asked.agent)
        if asked.errors or agent is None:
            await ack(response_action="errors", errors=asked.errors or {AGENT_BLOCK: NOT_STARTED})
            return
        person, carried = person_of(body), _carried(view)
        try:
            async with ctx.in_budget():
                begun = await begin(
                    ctx,
                    person,
                    agent,
                    _with_inputs(asked.task, asked.inputs),
                    channel_id=carried.channel_id,
                    quotation=carried.quotation,
                    start_key=f"form:{person.team_id}:{view['id']}",
                    by="slack:/agent",
                )
        except Exception as error:
            log_failed("starting a run failed", error)
            problem = error.sentence if isinstance(error, DatabaseRefuses) else NOT_KNOWN
            await ack(response_action="errors", errors={AGENT_BLOCK: problem})
            return
        if isinstance(begun, str):
            await ack(response_action="update", view=notice_modal(NOT_STARTED, begun))
            return
        await ack()
        ctx.post_ephemeral(carried.channel_id, person.user_id, begun)


async def show_form(ctx: ListenerContext, said: SlashCommand) -> bool:
    """The run belongs to the command's channel. False: Slack did not open the form."""
    form = agent_modal(forms(ctx), carried=Carried(said.channel_id))
    return await show(ctx, said.body, form, ctx.commands.spelled(FORM_NOT_OPENED)) is None


def _carried(view: Mapping[str, Any]) -> Carried:
    return Carried.read(view.get("private_metadata") or "")


def forms(ctx: ListenerContext) -> list[AgentForm]:
    """Return each loaded agent as the form that starts one offers it, with its inputs."""
    return [AgentForm(agent.name, agent.description, agent.inputs) for agent in ctx.agents]


def _with_inputs(task: str, inputs: Mapping[str, Any]) -> str:
    named = [f"{name}: {_text(value)}" for name, value in inputs.items()]
    return "\n\n".join(part for part in (task, "\n".join(named)) if part)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
