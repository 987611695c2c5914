"""The Details of a request: opened, paged and kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.domain.request_view import RequestView
from agent.usecases import requests
from signoff.values import Person
from slackbot.cards import (
    ACTION_DETAILS,
    ACTION_FILE,
    ACTION_OPEN,
    details_modal,
    details_text,
    named_in,
    parse_id,
    skeleton_modal,
)
from slackbot.masking import clean_view
from slackbot.reviewing.visibility import visible_request
from slackbot.reviewing.why import masked_why
from slackbot.slack.listeners import modals
from slackbot.slack.listeners.buttons import ButtonClick, card_of, person_of
from slackbot.slack.listeners.catch_all import OLD_BUTTON
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.modals import show, tell

HEADING = "Details"
NOT_OPENED = "Slack did not open the details in time. Please press the button again."
FILE_FAILED = "The file could not be sent to you. The pages of Details show the same."
FILE_SENT = "Everything about this request, as of when you asked for it."


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register the buttons that open a request's details, and the one that sends them as a file."""

    @app.action(ACTION_DETAILS)
    async def asked(ack: AsyncAck, body: dict[str, Any]) -> None:
        click = ButtonClick.read(body)
        request_id = click.value.request_id if click else None
        await _open(ctx, ack, body, request_id)

    @app.action(ACTION_OPEN)
    async def opened(ack: AsyncAck, body: dict[str, Any]) -> None:
        await _open(ctx, ack, body, parse_id(body["actions"][0].get("value")))

    @app.action(ACTION_FILE)
    async def wanted(ack: AsyncAck, body: dict[str, Any]) -> None:
        await ack()
        click = ButtonClick.read(body)
        if click is None:
            tell(ctx, body, OLD_BUTTON)
        else:
            ctx.background.start(_send_file(ctx, click, body))


async def _open(ctx: ListenerContext, ack: AsyncAck, body: dict[str, Any], request_id: UUID | None) -> None:
    """The content is looked up after the acknowledgement."""
    if request_id is None:
        await ack()
        tell(ctx, body, OLD_BUTTON)
        return
    person = person_of(body)
    refusal = await show(
        ctx,
        body,
        skeleton_modal(HEADING),
        NOT_OPENED,
        lambda view_id: fill(ctx, view_id, person, request_id),
    )
    await ack()
    if refusal and body.get("response_url"):
        tell(ctx, body, refusal)


async def fill(ctx: ListenerContext, view_id: str, person: Person, request_id: UUID, page: int = 1) -> None:
    """Draw a page of a request's details into an open modal; a failure is shown there as a sentence."""
    await modals.fill(ctx, view_id, HEADING, _details(ctx, person, request_id, page))


def show_change(
    ctx: ListenerContext, click: ButtonClick, body: Mapping[str, Any], *, outdated: bool = False
) -> None:
    """Redraw the person's own surface, and the channel's card if it was ``outdated``."""
    if click.place.surface == "modal":
        view = body["view"]
        # A form lies on top of its request's details.
        view_id = view["id"] if body.get("type") == "block_actions" else view.get("previous_view_id")
        if view_id:
            ctx.background.start(fill(ctx, view_id, click.person, click.value.request_id))
    elif click.place.surface == "home":
        ctx.homes.refresh(click.person)
    elif outdated:
        ctx.background.start(requests.redraw_card(ctx.db, click.value.request_id))


async def _details(ctx: ListenerContext, person: Person, request_id: UUID, page: int) -> dict[str, Any]:
    view = await visible_request(ctx.db, ctx.directory, person, request_id)
    nonce = await requests.create_place(ctx.db, request_id, "modal", person)
    clean = await ctx.permalinks.with_card_links(await clean_view(replace(view, place_nonce=nonce)))
    names = await ctx.directory.names(named_in(view))
    why = await masked_why(ctx.services, ctx.directory, person, view)
    return details_modal(clean, page, permalink=await _permalink(ctx, view), names=names, asked_because=why)


async def _permalink(ctx: ListenerContext, view: RequestView) -> str | None:
    if not view.run_channel_id or not view.run_thread_ts:
        return None
    thread = (view.run_channel_id, view.run_thread_ts)
    return (await ctx.permalinks.of([thread])).get(thread)


async def _send_file(ctx: ListenerContext, click: ButtonClick, body: dict[str, Any]) -> None:
    """To the person's own conversation with the app, not to the channel."""

    async def send() -> None:
        await card_of(ctx, click)
        view = await visible_request(ctx.db, ctx.directory, click.person, click.value.request_id)
        text = details_text(await clean_view(view))
        opened = await ctx.client.conversations_open(users=click.person.user_id)
        await ctx.client.files_upload_v2(
            content=text,
            filename=f"request-{view.id}.txt",
            title=f"Request {view.id}",
            channel=opened["channel"]["id"],
            initial_comment=FILE_SENT,
        )

    if wrong := await modals.in_time(send(), FILE_FAILED, 4 * modals.PATIENCE):
        tell(ctx, body, wrong)
