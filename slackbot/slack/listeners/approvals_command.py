"""The slash command `/approvals`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from agent.domain.errors import Refused
from agent.domain.notify_choice import NotifyChoice
from agent.domain.reports import PERIODS
from agent.store import views
from agent.usecases import notify_choice, sessions
from slackbot.cards import (
    PAGE_OF_HISTORY,
    PAGE_OF_WAITING,
    Card,
    misunderstood_command,
    request_details,
    usage,
)
from slackbot.cards.command_names import APPROVALS
from slackbot.cards.limits import limit_list
from slackbot.cards.lists import grant_list
from slackbot.cards.stats import stats
from slackbot.masking import clean_view
from slackbot.reviewing import grants, limits
from slackbot.reviewing.members import check_member
from slackbot.reviewing.reports import report_for
from slackbot.reviewing.visibility import visible_request
from slackbot.slack.listeners import listing
from slackbot.slack.listeners.command_input import SlashCommand, Verb
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.history_query import NOT_HISTORY, UnclearQuery, read_query
from slackbot.slack_api.client import SlackError

NO_SUCH_REQUEST = "No request that you may see has an id that begins like this."
AMBIGUOUS = "Several ids begin like this. Please type more of the id."
STATS_DAYS = 7
WHICH = "Which one? The id is at the end of each line in /approvals."
CHOOSE = "Choose with /approvals notify dm, /approvals notify thread or /approvals notify off."
NO_DIRECT_MESSAGES = (
    "Slack did not open a conversation with you, so nothing was changed; please try again in a moment."
)
_TOLD = {
    NotifyChoice.THREAD: "You are mentioned in the thread when what you asked for has an outcome.",
    NotifyChoice.DM: "You get a direct message when what you asked for has an outcome.",
    NotifyChoice.OFF: "Nobody mentions you when what you asked for has an outcome; the thread has it all the same.",
}
INBOX = (
    "<{link}|Open your inbox in the browser>. This link is for you only and works once, within five minutes. "
    "The Home tab of this app shows the same requests."
)
NO_ADDRESS = (
    "The inbox page needs a public address: ask your operator to set `SIGNOFF_PUBLIC_URL`. "
    "Until then your inbox is the Home tab of this app."
)


async def _list(
    what: str, ctx: ListenerContext, said: SlashCommand, query: listing.Query | None = None
) -> Card:
    await check_member(ctx.directory, said.person)
    return await listing.page(ctx, said.person, what, query or {}) or usage(APPROVALS, ctx.commands)


async def _history(ctx: ListenerContext, said: SlashCommand) -> Card:
    try:
        query = read_query(said.rest, [agent.name for agent in ctx.agents], datetime.now(UTC))
    except UnclearQuery as unclear:
        # All other problems quote what was typed.
        problem = ctx.commands.spelled(NOT_HISTORY) if str(unclear) == NOT_HISTORY else str(unclear)
        guess = f"{ctx.commands.approvals} history {unclear.meant}" if unclear.meant else None
        return misunderstood_command(APPROVALS, problem, ctx.commands, guess=guess, about="history")
    return await _list(PAGE_OF_HISTORY, ctx, said, query)


async def _show(ctx: ListenerContext, said: SlashCommand) -> Card:
    if not said.rest:
        return misunderstood_command(APPROVALS, ctx.commands.spelled(WHICH), ctx.commands, about="show")
    await check_member(ctx.directory, said.person)
    ids: list[UUID] = await ctx.db.read(
        views.requests_like, team_id=ctx.directory.own_team_id, id_prefix=said.rest
    )
    if len(ids) != 1:
        return Card(AMBIGUOUS if ids else NO_SUCH_REQUEST, [])
    try:
        view = await visible_request(ctx.db, ctx.directory, said.person, ids[0])
    except Refused:
        return Card(NO_SUCH_REQUEST, [])
    names = await ctx.directory.names(view.approvers)
    shown = await ctx.permalinks.with_card_links(await clean_view(view))
    return request_details(shown, names=names)


async def _stats(ctx: ListenerContext, said: SlashCommand) -> Card:
    days = said.rest or str(STATS_DAYS)
    if days not in map(str, PERIODS):
        problem = f"Reports cover {', '.join(map(str, PERIODS[:-1]))} or {PERIODS[-1]} days."
        return misunderstood_command(APPROVALS, problem, ctx.commands, about="stats")
    await check_member(ctx.directory, said.person)
    return stats(await report_for(ctx.db, ctx.directory, said.person, int(days)), ctx.commands)


async def _inbox(ctx: ListenerContext, said: SlashCommand) -> Card:
    await check_member(ctx.directory, said.person)
    if ctx.invitation is None:
        app_id, team_id = said.body.get("api_app_id"), ctx.directory.own_team_id
        home = f" <slack://app?team={team_id}&id={app_id}&tab=home|Open it>." if app_id else ""
        return Card(NO_ADDRESS + home, [])
    secret = await sessions.create_link(ctx.db, said.person)
    return Card(INBOX.format(link=ctx.invitation(secret)), [])


async def _grants(ctx: ListenerContext, said: SlashCommand) -> Card:
    return grant_list(await grants.revocable_lines(ctx.db, ctx.directory, said.person))


async def _limits(ctx: ListenerContext, said: SlashCommand) -> Card:
    await check_member(ctx.directory, said.person)
    return limit_list(await limits.visible(ctx.db, ctx.services.policy, said.person))


async def _notify(ctx: ListenerContext, said: SlashCommand) -> Card:
    await check_member(ctx.directory, said.person)
    if not said.rest:
        way = await notify_choice.find(ctx.db, said.person)
        return Card(f"{_TOLD[way]} {ctx.commands.spelled(CHOOSE)}", [])
    wanted = said.rest.lower()
    if wanted not in set(NotifyChoice):
        return misunderstood_command(APPROVALS, ctx.commands.spelled(CHOOSE), ctx.commands, about="notify")
    way, channel_id = NotifyChoice(wanted), None
    if way is NotifyChoice.DM:
        try:
            opened = await ctx.client.conversations_open(users=said.person.user_id)
        except SlackError:
            return Card(NO_DIRECT_MESSAGES, [])
        channel_id = opened["channel"]["id"]
    await notify_choice.choose(ctx.db, said.person, way, channel_id)
    return Card(_TOLD[way], [])


async def _help(ctx: ListenerContext, __: SlashCommand) -> Card:
    return usage(APPROVALS, ctx.commands)


VERBS: dict[str, Verb] = {
    "mine": partial(_list, listing.MINE),
    "all": partial(_list, PAGE_OF_WAITING),
    "show": _show,
    "history": _history,
    "grants": _grants,
    "limits": _limits,
    "inbox": _inbox,
    "stats": _stats,
    "notify": _notify,
    "help": _help,
}
HIDDEN: dict[str, Verb] = {"": partial(_list, listing.TODO), "list": VERBS["all"], "home": _inbox}
