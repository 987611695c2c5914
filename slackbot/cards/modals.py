"""Modals: the frame, a message, and a placeholder, because a trigger lives for 3 s."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slackbot.cards import blocks, inert
from slackbot.cards.values import Card, Json

MAX_TITLE = 24
MAX_BLOCKS = 100

_TYPED = "You wrote:"

_PERSON = re.compile(r"\b[TE][A-Z0-9]{1,30}/([UW][A-Z0-9]{1,30})\b", re.ASCII)


def modal(
    heading: str,
    rows: list[Json],
    *,
    close: str,
    submit: str | None = None,
    callback: str = "",
    carry: str = "",
) -> Json:
    """`carry` (at most 3,000 characters) returns with its submission as `private_metadata`."""
    view: Json = {
        "type": "modal",
        "title": {
            "type": "plain_text",
            "text": inert.cut(inert.line(heading, 200), MAX_TITLE)[0] or "Signoff",
            "emoji": False,
        },
        "close": blocks.plain(close, MAX_TITLE),
        "blocks": rows[:MAX_BLOCKS],
    }
    if submit:
        view["submit"] = blocks.plain(submit, MAX_TITLE)
    return (
        view
        | ({"callback_id": callback} if callback else {})
        | ({"private_metadata": carry} if carry else {})
    )


def skeleton_modal(heading: str) -> Json:
    """Return the modal that opens at once, and asks for a moment until its content is looked up."""
    return notice_modal(heading, "One moment …")


def notice_modal(heading: str, message: str, typed: str | None = None) -> Json:
    """`typed`: the form's input, to be copied."""
    rows = [blocks.rich_text(blocks.section(*_named(inert.line(message, 2000) or "…")))]
    if typed:
        rows += [
            blocks.rich_text(
                blocks.section(blocks.text(_TYPED, italic=True)),
                blocks.preformatted(inert.paragraph(typed, 3000, 60)),
            )
        ]
    return modal(heading, blocks.with_ids(rows, heading), close="Close")


def _named(sentence: str) -> Iterator[Json]:
    """`team/user` ids become mentions; a modal notifies nobody."""
    for at, piece in enumerate(_PERSON.split(sentence)):
        if at % 2:
            yield blocks.mention(piece)
        elif piece:
            yield blocks.text(piece)


def list_modal(heading: str, lists: Sequence[Card]) -> Json:
    """Return a modal with the blocks of several list answers, one below the other."""
    rows = [block for each in lists for block in each.blocks]
    return modal(heading, blocks.with_ids(rows, heading), close="Close")
