"""`/approvals`: what waits for whom, and what has been decided."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from agent import sessions
from agent.store import reads
from slackbot.cards import PAGE_OF_WAITING, Card, misunderstood, request_details, usage
from slackbot.identity import objection_to_see
from slackbot.listeners import lists
from slackbot.listeners.doors import Doors
from slackbot.listeners.history_query import Unclear, read_query
from slackbot.listeners.typed import Typed, check_belongs
from slackbot.secrets import clean_view

NO_SUCH_REQUEST = "No request that you may see has an id that begins like this."
AMBIGUOUS = "Several ids begin like this; please give more of it."
WHICH = "Which one? Its id is at the end of its line in /approvals."
INBOX = (
    "<{link}|Open your inbox in the browser>. This link is yours alone, works once and for five minutes. "
    "The same waits for you in the Home tab of this app."
)
NO_ADDRESS = (
    "The inbox page needs an address that people can reach: whoever runs Signoff sets `SIGNOFF_PUBLIC_URL`. "
    "Until then your inbox is the Home tab of this app."
)


async def _list(doors: Doors, said: Typed, what: str, query: lists.Query | None = None) -> Card:
    return await lists.page(doors, said.person, what, query or {}) or usage("/approvals")


async def _todo(doors: Doors, said: Typed) -> Card:
    return await _list(doors, said, lists.TODO)


async def _mine(doors: Doors, said: Typed) -> Card:
    return await _list(doors, said, lists.MINE)


async def _all(doors: Doors, said: Typed) -> Card:
    return await _list(doors, said, PAGE_OF_WAITING)


async def _history(doors: Doors, said: Typed) -> Card:
    try:
        query = read_query(said.rest, [agent.name for agent in doors.agents], datetime.now(UTC))
    except Unclear as unclear:
        guess = f"/approvals history {unclear.meant}" if unclear.meant else None
        return misunderstood("/approvals", str(unclear), guess=guess, about="history")
    return await _list(doors, said, lists.HISTORY, query)


async def _show(doors: Doors, said: Typed) -> Card:
    if not said.rest:
        return misunderstood("/approvals", WHICH, about="show")
    await check_belongs(doors, said.person)
    async with doors.db.connection() as connection:
        ids: list[UUID] = await reads.requests_like(
            connection, team_id=doors.directory.own_team_id, id_prefix=said.rest
        )
        view = await reads.request_view(connection, ids[0]) if len(ids) == 1 else None
    if len(ids) > 1:
        return Card(AMBIGUOUS, [])
    if view is None or await objection_to_see(doors.directory, said.person, view) is not None:
        return Card(NO_SUCH_REQUEST, [])
    names = await doors.directory.names(view.approvers)
    shown = await doors.permalinks.to_new_card(await clean_view(view))
    return request_details(shown, names=names)


async def _inbox(doors: Doors, said: Typed) -> Card:
    await check_belongs(doors, said.person)
    if doors.invitation is None:
        app_id, team_id = said.body.get("api_app_id"), doors.directory.own_team_id
        home = f" <slack://app?team={team_id}&id={app_id}&tab=home|Open it>." if app_id else ""
        return Card(NO_ADDRESS + home, [])
    secret = await sessions.invite(doors.db, said.person)
    return Card(INBOX.format(link=doors.invitation(secret)), [])


async def _help(_: Doors, __: Typed) -> Card:
    return usage("/approvals")


VERBS = {"mine": _mine, "all": _all, "show": _show, "history": _history, "inbox": _inbox, "help": _help}
HIDDEN = {"": _todo, "list": _all, "home": _inbox}
