"""Buttons below lists. Each page looks up current rights."""

from __future__ import annotations

from functools import partial
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from slackbot.cards import (
    ACTION_LIST,
    ACTION_PAGE,
    ACTION_PAGE_BACK,
    PAGE_OF_ANSWER,
    PAGE_OF_DETAILS,
    PAGE_OF_HOME,
    Card,
    list_modal,
    notice_modal,
    parse_id,
    parse_page_value,
    skeleton_modal,
)
from slackbot.cards.cursor import Cursor
from slackbot.slack.listeners import answers, details, listing
from slackbot.slack.listeners.button_click import person_of
from slackbot.slack.listeners.catch_all import OLD_BUTTON
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.modals import draw, in_time, show, tell

HEADING = "Requests"
NOT_OPENED = "Slack did not open the list in time. Please press the button again."
FAILED = "The list could not be looked up. Please try again."


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    async def turned(ack: AsyncAck, body: dict[str, Any]) -> None:
        await ack()
        read = parse_page_value(body["actions"][0].get("value"))
        if read is None or not _turn(ctx, body, *read):
            tell(ctx, body, OLD_BUTTON)

    async def opened(ack: AsyncAck, body: dict[str, Any]) -> None:
        read = parse_page_value(body["actions"][0].get("value"))
        refusal: str | None = OLD_BUTTON
        if read is not None and read[0] in listing.LISTS:
            draw_page = partial(_in_modal, ctx, body, *read)
            refusal = await show(ctx, body, skeleton_modal(HEADING), NOT_OPENED, draw_page)
        await ack()
        if refusal:
            tell(ctx, body, refusal)

    app.action(ACTION_PAGE)(turned)
    app.action(ACTION_PAGE_BACK)(turned)
    app.action(ACTION_LIST)(opened)


def _turn(ctx: ListenerContext, body: dict[str, Any], what: str, query: dict[str, str]) -> bool:
    """False: it belongs to another list."""
    view = body.get("view") or {}
    match what, view.get("type"):
        case _, "modal" if what == PAGE_OF_DETAILS:
            request_id, page = parse_id(query.get("request")), query.get("page", "")
            if request_id is None or not page.isdecimal():
                return False
            ctx.background.start(details.fill(ctx, view["id"], person_of(body), request_id, int(page[:6])))
        case _, "modal" if what == PAGE_OF_ANSWER:
            draw_answer = answers.drawing(ctx, body, query)
            if draw_answer is None:
                return False
            ctx.background.start(draw_answer(view["id"]))
        case _, "home" if what == PAGE_OF_HOME:
            waiting, mine = (Cursor.read(query.get(name)) for name in ("waiting", "mine"))
            ctx.homes.turn_to(person_of(body), waiting, mine)
        case _, "modal" if what in listing.LISTS:
            ctx.background.start(_in_modal(ctx, body, what, query, view["id"]))
        case _, None if what in listing.LISTS:
            ctx.background.start(_in_answer(ctx, body, what, query))
        case _:
            return False
    return True


async def _in_modal(
    ctx: ListenerContext, body: dict[str, Any], what: str, query: dict[str, str], view_id: str
) -> None:
    card = await _page(ctx, body, what, query)
    shown = notice_modal(HEADING, card) if isinstance(card, str) else list_modal(HEADING, [card])
    await draw(ctx, view_id, shown)


async def _in_answer(ctx: ListenerContext, body: dict[str, Any], what: str, query: dict[str, str]) -> None:
    """Replace an ephemeral answer, which only a `response_url` can; every click brings a new one (5 uses, 30 min)."""
    card = await _page(ctx, body, what, query)
    if isinstance(card, str):
        tell(ctx, body, card)
    else:
        await ctx.client.respond(
            body["response_url"],
            text=card.text,
            blocks=card.blocks,
            response_type="ephemeral",
            replace_original=True,
        )


async def _page(ctx: ListenerContext, body: dict[str, Any], what: str, query: dict[str, str]) -> Card | str:
    return await in_time(listing.page(ctx, person_of(body), what, query), FAILED) or OLD_BUTTON
