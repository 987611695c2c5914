"""The weekly message to operators: what there is to say of the week, each with the page that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from slackbot.cards import blocks, inert
from slackbot.cards.values import Card, Json, metadata

MAX_TEXT = 2500
"""Of one line's numbers; those of observed checkpoints are several lines."""

_PAGES = {
    "waiting": "/history?status=waiting&sort=oldest",
    "expired": "/history?status=expired&since={since}&until={last}",
    "in_doubt": "/history?status=in_doubt",
    "unread": "/reports?days=7&last={last}#unread",
    "together": "/reports?days=7&last={last}#together",
    "grants": "/grants",
    "denied": "/reports?days=7&last={last}#policy",
    "silent": "/reports?days=7&last={last}#policy",
    "observed": "/reports?days=7&last={last}#policy",
}


def week_card(
    body: Mapping[str, Any], *, inbox: str | None = None, delivery_id: object | None = None
) -> Card:
    """``inbox``: its address in the browser."""
    first = datetime.fromisoformat(body["since"]).date()
    last = (datetime.fromisoformat(body["until"]) - timedelta(days=1)).date()
    heading = f"The week from {first} to {last}"
    said = [(str(each["title"]), str(each["text"])) for each in body["lines"]]
    pages = [_PAGES.get(str(each["about"]), "") for each in body["lines"]]
    links = [f"{inbox}{page.format(since=first, last=last)}" if inbox and page else None for page in pages]
    parts = [_part(title, text, link) for (title, text), link in zip(said, links, strict=True)]
    rows = [blocks.rich_text(blocks.section(blocks.text(heading, bold=True)), blocks.bullets(parts))]
    text = inert.mrkdwn("; ".join(f"{title}: {text}" for title, text in said), 2000)
    return Card(f"{heading}: {text}", blocks.with_ids(rows, "week"), metadata(delivery_id))


def _part(title: str, text: str, link: str | None) -> Json:
    shown = blocks.texts(inert.paragraph(text, MAX_TEXT, 25))
    page = blocks.link(link, "open the page") if link else None
    # A demo's address is none that a card may link to, and words alone open nothing.
    led = [blocks.text(" · "), page] if page and page["type"] == "link" else []
    return blocks.section(blocks.text(f"{title}: ", bold=True), *shown, *led)
