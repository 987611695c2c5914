"""The digest card of a flood, and what becomes of an older one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from signoff.values import Risk
from slackbot.cards import blocks, inert
from slackbot.cards.together_form import together_button
from slackbot.cards.values import ACTION_LIST, Card, Json, metadata, page_value

MAX_TOOLS = 8

PAGE_OF_WAITING = "waiting"
"""Page values with `agent` or `key`.

`folded` is `yes` on the first pages, and `no` after the last request without a card.
"""


@dataclass(frozen=True, slots=True)
class FloodDigest:
    """Requests of ``sender`` (an agent, or `key:NAME`) without a card, and until when they wait."""

    sender: str
    waiting: int
    highest: Risk
    tools: Mapping[str, int] = field(default_factory=dict)
    first_deadline: datetime | None = None
    notify: tuple[str, ...] = ()


def flood_digest_card(digest: FloodDigest, *, delivery_id: object | None = None) -> Card:
    """Requests behind the digest are decided from the list, or several in one form."""
    whose = _sender(digest.sender)
    if not digest.waiting:
        return _ended_digest_card(digest.sender, delivery_id)
    count = f"{digest.waiting:,} {'request' if digest.waiting == 1 else 'requests'}"
    verb = "waits" if digest.waiting == 1 else "wait"
    risk = f"Up to {digest.highest.value} risk"
    sentence = (
        f"{risk}. They share this message because too many arrived at once. Their own cards follow, a few per "
        "minute."
    )
    is_key, name = digest.sender.startswith("key:"), digest.sender.removeprefix("key:")
    title = f"{count} from {whose} {verb} for review"
    query = {"key" if is_key else "agent": inert.cut(name, 200)[0]}
    value = page_value(PAGE_OF_WAITING, **query, folded="yes")
    rows = [
        blocks.header(inert.line(title, blocks.HEADER_LIMIT)),
        blocks.rich_text(blocks.section(blocks.text(sentence)), *_tools(digest), *_until(digest)),
        *blocks.actions(
            blocks.button("Open the list", ACTION_LIST, value, whose, "primary"),
            together_button(query, whose),
        ),
    ]
    mentions = "".join(f" {blocks.mention_mrkdwn(each)}" for each in digest.notify[:10])
    text = f"{risk}: {count} from {inert.mrkdwn(whose, 80)} {verb} for review{mentions}"
    return Card(text, blocks.with_ids(rows, f"digest:{digest.sender}"), metadata(delivery_id))


def outdated_digest_card(sender: str, newer: str | None, *, delivery_id: object | None = None) -> Card:
    """Return what a digest becomes once a newer one exists: a pointer to it, as a link if that is known."""
    sentence = f"More requests from {_sender(sender)} have come since. The list is now in "
    place = blocks.link(newer, "a newer message") if newer else blocks.text("a newer message")
    rows = [blocks.rich_text(blocks.section(blocks.text(sentence), place, blocks.text(".")))]
    text = f"{inert.mrkdwn(sentence, 200)}a newer message."
    return Card(text, blocks.with_ids(rows, f"outdated:{sender}"), metadata(delivery_id))


def _ended_digest_card(sender: str, delivery_id: object | None) -> Card:
    sentence = f"No request from {_sender(sender)} still waits in this message."
    why = " They were decided, or have their own cards."
    rows = [blocks.rich_text(blocks.section(blocks.text(sentence, bold=True), blocks.text(why)))]
    return Card(inert.mrkdwn(sentence, 200), blocks.with_ids(rows, f"ended:{sender}"), metadata(delivery_id))


def _sender(sender: str) -> str:
    if sender.startswith("key:"):
        return f"the key {inert.line(sender.removeprefix('key:'), 60)}"
    return f"agent {inert.line(sender, 60)}"


def _tools(digest: FloodDigest) -> list[Json]:
    most = sorted(digest.tools.items(), key=lambda item: (-item[1], item[0]))
    sentence = [f"{number:,} × {inert.line(tool, 80)}" for tool, number in most[:MAX_TOOLS]]
    if (rest := len(most) - MAX_TOOLS) > 0:
        sentence.append(f"{rest:,} more tools")
    return [blocks.bullets(blocks.section(blocks.text(each)) for each in sentence)] if sentence else []


def _until(digest: FloodDigest) -> list[Json]:
    if digest.first_deadline is None:
        return []
    pieces = [blocks.text("The first deadline is "), blocks.moment(digest.first_deadline)]
    for each in [each for each in digest.notify if blocks.mention_mrkdwn(each)][:10]:
        pieces += [blocks.text(" · "), blocks.mention(each)]
    return [blocks.section(*pieces)]
