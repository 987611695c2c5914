"""An agent is started by a command, a mention or a direct message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from agent.domain.errors import DOUBTFUL
from agent.runtime.agents import Agent
from agent.store import views
from agent.usecases.runs import QuotedMessage
from signoff.formats import quoted_lines
from signoff.values import Person
from slackbot.cards import Card, misunderstood_command, run_started
from slackbot.cards.command_names import AGENT
from slackbot.cards.quotation import Quotation
from slackbot.reviewing import run_starts
from slackbot.reviewing.members import NotAMember
from slackbot.reviewing.run_starts import NotStarted, Requester
from slackbot.slack.listeners.context import ListenerContext

AUTHOR_UNKNOWN = (
    "Slack did not confirm who wrote this message, so nothing was started. Please try again in a moment."
)


def closest_name(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped word resembles most; None if none is close."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return close[0] if close else None


def split(text: str) -> tuple[str, str]:
    """Split a text into its first word and the rest, stripped; a missing part is empty."""
    first, rest = [*text.split(maxsplit=1), "", ""][:2]
    return first, rest.strip()


def unescape(text: str) -> str:
    """Slack escapes `&`, `<` and `>` and nothing else; undone once, `&` last."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def author_of(message: Mapping[str, Any], ctx: ListenerContext) -> Person | None:
    """Return who wrote a message, under the workspace that Slack names; None if no user did.

    The app that posts a message has a user, too, and `bot_id` with it.
    """
    user = message.get("user")
    if not isinstance(user, str):
        return None
    team_id = message.get("user_team") or message.get("source_team") or message.get("team")
    return Person(team_id or ctx.directory.own_team_id, user)


async def start(
    ctx: ListenerContext, person: Person, words: str, *, channel_id: str, start_key: str, by: str
) -> Card:
    """Start the agent named by the first word; ``start_key`` makes a repetition one run."""
    name, task = split(words)
    agent = ctx.agents.find(name)
    if agent is None or not task:
        return misunderstood(ctx, name, task)
    begun = await begin(ctx, person, agent, task, channel_id=channel_id, start_key=start_key, by=by)
    return Card(begun, []) if isinstance(begun, str) else begun


async def begin(
    ctx: ListenerContext,
    person: Person,
    agent: Agent,
    task: str,
    *,
    channel_id: str,
    start_key: str,
    by: str,
    quotation: Quotation | None = None,
) -> Card | str:
    """Returns a sentence if the run has not started."""
    member = await ctx.directory.member(person)
    try:
        quoted = await _quoted(ctx, quotation) if quotation else None
        started = await run_starts.start(
            ctx.services,
            ctx.directory,
            agent,
            task,
            Requester(member.person, "slack"),
            by,
            quoted=quoted,
            channel_id=channel_id,
            start_key=start_key,
        )
    except NotAMember as refused:
        return refused.sentence
    except NotStarted as problem:
        return str(problem)
    run = await ctx.db.read(views.run_view, started.run_id)
    return run_started(run) if run is not None else Card(f"{agent.name} has started.", [])


async def _quoted(ctx: ListenerContext, quotation: Quotation) -> QuotedMessage:
    """Raises NotStarted while Slack does not confirm the author, whose own approval must not count."""
    standing = await ctx.directory.member(quotation.author) if quotation.author else None
    if standing is not None and standing.refusal in DOUBTFUL:
        raise NotStarted(AUTHOR_UNKNOWN)
    author = standing.person if standing is not None else None
    return QuotedMessage(f"{quotation.heading}\n{quoted_lines(quotation.text)}", author)


def misunderstood(ctx: ListenerContext, name: str, task: str) -> Card:
    """Return the help for a start without a known agent or without a task, with a probable command."""
    names = [agent.name for agent in ctx.agents]
    named = f"The {'agents are' if len(names) > 1 else 'only agent is'} {', '.join(names)}."
    known = named if names else "No agents are loaded."
    near = closest_name(name, names) if name and name not in names else None
    guess = f"{ctx.commands.agent} run {near} {task}".strip() if near else None
    if not name:
        problem = f"Which agent? {known}"
    elif name in names:
        problem = f"What should {name} do? Write the task after its name."
    else:
        problem = (
            f'There is no agent "{name[:60]}"; did you mean "{near}"?' if near else f"No such agent. {known}"
        )
    return misunderstood_command(AGENT, problem, ctx.commands, guess=guess, about="run")
