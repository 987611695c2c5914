"""Replies in an agent's thread go to its run; mentions and direct messages start agents.

A direct message is `help`, `run AGENT TASK`, or a task for the default agent.
A word in a request's thread decides nothing. Exceptions are not caught: Slack then sends the event again, and the
message's place is the key by which it counts once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from slack_bolt.async_app import AsyncApp

from agent.domain.errors import DOUBTFUL, Refused
from agent.store import views
from agent.usecases import requests, runs
from signoff.values import Person
from slackbot.cards import DIRECT, Card, refusal_text, usage
from slackbot.cards.command_names import AGENT
from slackbot.reviewing.members import NotAMember, check_member
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.middleware import objection
from slackbot.slack.listeners.run_starts import author_of, begin, misunderstood, split, start, unescape
from slackbot.slack_api.client import SlackUnavailable

NOT_HERE = (
    "I only read messages in an agent's own thread. Start agents in the channel itself, and decide requests with "
    "the buttons on their cards."
)


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register messages and mentions: replies in a thread go to its run, others may start an agent."""
    _register_deletions(app, ctx)

    @app.event("message")
    async def message(event: dict[str, Any]) -> None:
        message = IncomingMessage.read(event, ctx)
        if message is None or not (message.words or message.direct):
            return
        heard = message.words and message.thread_ts and await _reply(ctx, message, tell=True)
        if message.direct and not heard:
            await answer(ctx, message)

    @app.event("app_mention")
    async def mention(event: dict[str, Any]) -> None:
        message = IncomingMessage.read(event, ctx)
        if message is None or (
            message.words and message.thread_ts and await _reply(ctx, message, tell=False)
        ):
            return
        if message.thread_ts:
            _reply_ephemeral(ctx, message, Card(NOT_HERE, []))
            return
        verb, rest = split(message.words)
        if verb.lower() != "run":
            _reply_ephemeral(ctx, message, usage(AGENT, ctx.commands))
            return
        if problem := objection(rest):
            _reply_ephemeral(ctx, message, Card(refusal_text(problem), []))
            return
        async with ctx.in_budget():
            card = await start(
                ctx,
                message.person,
                rest,
                channel_id=message.channel_id,
                start_key=message.key,
                by="slack:mention",
            )
        _reply_ephemeral(ctx, message, card)


def _register_deletions(app: AsyncApp, ctx: ListenerContext) -> None:
    @app.event({"type": "message", "subtype": "message_deleted"})
    async def deleted(event: dict[str, Any]) -> None:
        await _replace_deleted(ctx, event["channel"], str(event.get("deleted_ts")))

    @app.event({"type": "message", "subtype": "message_changed"})
    async def changed(event: dict[str, Any]) -> None:
        """Handle deletions: of a deleted message with a thread, Slack leaves a tombstone."""
        message = event.get("message") or {}
        if message.get("subtype") == "tombstone":
            await _replace_deleted(ctx, event["channel"], str(message.get("ts")))


async def _replace_deleted(ctx: ListenerContext, channel_id: str, ts: str) -> None:
    team_id = ctx.directory.own_team_id
    await requests.replace_deleted_card(ctx.db, team_id, channel_id, ts)
    await runs.replace_deleted_root(ctx.db, team_id, channel_id, ts)


async def _reply(ctx: ListenerContext, message: IncomingMessage, *, tell: bool) -> bool:
    """False: no run's thread. `tell`: answer refused writers, for one of two events.

    Raises SlackUnavailable if the thread may be of a run whose first message Slack has posted and not yet told us of.
    """
    here = ctx.directory.own_team_id, message.channel_id
    async with ctx.in_budget():
        run_id = await ctx.db.read(views.run_in_thread, *here, message.thread_ts or "")
        if run_id is None:
            if message.under_own and await ctx.db.read(views.has_unknown_thread, *here):
                raise SlackUnavailable("the thread may be of a run")
            return False
        problem = await _add(ctx, run_id, message)
    if problem and tell:
        _reply_ephemeral(ctx, message, Card(problem, []))
    return True


async def _add(ctx: ListenerContext, run_id: UUID, message: IncomingMessage) -> str | None:
    try:
        person = (await ctx.directory.member(message.person)).person
        await check_member(ctx.directory, person)
        if problem := objection(message.words):
            return refusal_text(problem)
        administrator = await ctx.directory.is_admin(person)
        await runs.add_message(
            ctx.db, run_id, message.words, person, message.key, administrator=administrator
        )
    except Refused as refused:
        if isinstance(refused, NotAMember) and refused.code in DOUBTFUL:
            raise SlackUnavailable("the author is not known") from None
        return refused.sentence
    return None


def _reply_ephemeral(ctx: ListenerContext, message: IncomingMessage, card: Card) -> None:
    ctx.post_ephemeral(message.channel_id, message.person.user_id, card, message.thread_ts)


_MESSAGE_SUBTYPES = (None, "thread_broadcast", "file_share")
_MENTION = re.compile(r"\s*<@(?P<user>[UW][A-Z0-9]+)(?:\|[^>]*)?>[\s:,]*")


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A person's message, without a leading mention of us.

    `direct`: in the person's conversation with the app. `under_own`: the thread may begin with a message of ours.
    """

    person: Person
    channel_id: str
    ts: str
    thread_ts: str | None
    words: str
    direct: bool
    under_own: bool

    @property
    def key(self) -> str:
        """Identifies the message: a mention arrives as two events, each possibly several times."""
        return f"message:{self.channel_id}:{self.ts}"

    @classmethod
    def read(cls, event: Mapping[str, Any], ctx: ListenerContext) -> IncomingMessage | None:
        """`None` unless a person wrote it now: for edits, joins, bots and our own."""
        author = author_of(event, ctx)
        if event.get("subtype") not in _MESSAGE_SUBTYPES or event.get("bot_id") or author is None:
            return None
        if author.user_id == ctx.directory.own_bot_user_id:
            return None
        text = event.get("text") or ""
        called = _MENTION.match(text)
        if called and called["user"] == ctx.directory.own_bot_user_id:
            text = text[called.end() :]
        return cls(
            author,
            event["channel"],
            event["ts"],
            event.get("thread_ts"),
            unescape(text).strip(),
            direct=event.get("channel_type") == "im",
            under_own=event.get("parent_user_id") in (None, ctx.directory.own_bot_user_id),
        )


async def answer(ctx: ListenerContext, message: IncomingMessage) -> None:
    """Start an agent for a person's direct message, and reply there if no run starts."""
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
            return usage(DIRECT, ctx.commands)
    begun = await begin(
        ctx,
        message.person,
        agent,
        task,
        channel_id=message.channel_id,
        start_key=message.key,
        by="slack:direct",
    )
    return Card(refusal_text(begun), []) if isinstance(begun, str) else None
