"""Requests that expired before their cards could be posted, in one message."""

from __future__ import annotations

from collections.abc import Sequence

from agent.domain.request import RequestStatus
from agent.domain.request_view import RequestView
from agent.domain.short_ids import short_id
from agent.domain.verdicts import OUTCOMES
from slackbot.cards import blocks, inert
from slackbot.cards.request import title
from slackbot.cards.values import ACTION_LIST, ACTION_OPEN, Card, Json, metadata, page_value

PAGE_OF_HISTORY = "history"
MAX_WHY = 300


def unseen_card(
    count: int,
    named: Sequence[RequestView],
    *,
    page: str | None = None,
    channel_id: str | None = None,
    why: str | None = None,
    delivery_id: object | None = None,
) -> Card:
    """``named``: some of them. ``channel_id``: where they could not be posted; ``page``: the list in the browser."""
    one = count == 1
    words = (
        f"{count:,} {'request' if one else 'requests'} expired before {'its card' if one else 'their cards'} "
        "could be posted"
    )
    expired = OUTCOMES[RequestStatus.EXPIRED]
    where = [blocks.text(" in "), blocks.channel(channel_id)] if channel_id else []
    then = [blocks.section(blocks.text(f"{expired.sign} {words}", bold=True), *where)]
    then.append(blocks.section(blocks.text(expired.consequence.removeprefix(". "))))
    if why:
        then.append(blocks.quote(blocks.text(inert.paragraph(why, MAX_WHY, 4))))
    rows = [blocks.rich_text(*then), *(block for each in named for block in _named(each))]
    if more := count - len(named):
        rows.append(blocks.rich_text(blocks.section(blocks.text(f"… and {more:,} more", italic=True))))
    if page:
        link = blocks.link(page, "the inbox page")
        rows.append(blocks.rich_text(blocks.section(blocks.text("All expired requests are on "), link)))
    listed = page_value(PAGE_OF_HISTORY, status=RequestStatus.EXPIRED.value)
    rows += blocks.actions(blocks.button("Open the list", ACTION_LIST, listed, words))
    return Card(
        f"{expired.sign} {words}", blocks.with_ids(rows, f"unseen:{delivery_id}"), metadata(delivery_id)
    )


def _named(view: RequestView) -> list[Json]:
    about = [
        blocks.text(f"agent {inert.line(view.chain, 80)} · for "),
        blocks.requester(view.behalf),
        blocks.text(" · until "),
        blocks.moment(view.expires_at),
        blocks.text(" · "),
        blocks.text(short_id(view.id), code=True),
    ]
    return [
        blocks.labelled(
            inert.line(title(view), 400), blocks.button("Details", ACTION_OPEN, str(view.id), title(view))
        ),
        blocks.rich_text(blocks.section(*about)),
    ]
