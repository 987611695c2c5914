"""Direct messages to the app: `help`, `run AGENT TASK`, or a task for the default agent."""

from __future__ import annotations

from slackbot.cards import DIRECT, Card, refusal_text, usage
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.incoming_message import IncomingMessage
from slackbot.slack.listeners.run_starts import begin, misunderstood, split
from slackbot.slack.listeners.unstorable_texts import objection


async def answer(ctx: ListenerContext, message: IncomingMessage) -> None:
    async with ctx.in_budget():
        reply = await _start(ctx, message)
    if reply is not None:
        ctx.post(message.channel_id, reply, message.thread_ts)


async def _start(ctx: ListenerContext, message: IncomingMessage) -> Card | None:
    """`None`: the run has started. The message's key makes a repeated event one run."""
    if problem := objection(message.words):
        return Card(refusal_text(problem), [])
    verb, rest = split(message.words)
    if verb.lower() == "run":
        name, task = split(rest)
        agent = ctx.agents.find(name)
        if agent is None or not task:
            return misunderstood(ctx, name, task)
    else:
        agent, task = (
            ctx.agents.find(ctx.services.policies.last_loaded.defaults.default_agent or ""),
            message.words,
        )
        if agent is None or message.words.lower().rstrip("!?. ") in ("", "help"):
            return usage(DIRECT)
    place = {"channel_id": message.channel_id, "start_key": message.key}
    begun = await begin(ctx, message.person, agent, task, **place, by="slack:direct")
    return Card(refusal_text(begun), []) if isinstance(begun, str) else None
