"""The message of a group: requests that were asked at once and share it instead of a card each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from agent.domain.request import RequestStatus
from agent.domain.request_view import RequestView
from agent.domain.verdicts import OUTCOMES
from signoff.values import Risk
from slackbot.cards import blocks, inert, scalars, status_words
from slackbot.cards.buttons import subject
from slackbot.cards.request import without_command_in_title
from slackbot.cards.together_form import apart, together_button
from slackbot.cards.values import ACTION_LIST, Card, Json, metadata, page_value

MAX_TITLE = 200
MAX_NOTIFIED = 10
MAX_CARD = 9_000
"""Weight of the requests' lines; Slack refuses messages of more than about 13,200."""

PAGE_OF_GROUP = "group"
"""Page values with `group`, the group's name."""


@dataclass(frozen=True, slots=True)
class GroupDigest:
    """A group's ``name``, its first requests, and how many it has, how many of them wait, and until when at least."""

    name: str
    first: Sequence[RequestView]
    requests: int
    waiting: int
    first_deadline: datetime | None = None


def group_digest_card(group: GroupDigest, *, notify: bool, delivery_id: object | None = None) -> Card:
    """Return the message of a group; `notify`: with mentions of whom its checkpoint notifies."""
    title = _title(group)
    asked = dict.fromkeys(each for view in group.first for each in view.rule.notify) if notify else {}
    mentioned = [each for each in asked if blocks.mention_mrkdwn(each)][:MAX_NOTIFIED]
    rows = [
        blocks.header(inert.line(title, blocks.HEADER_LIMIT)),
        blocks.rich_text(_said(group, mentioned), _lines(group)),
        *_buttons(group, title),
    ]
    text = " ".join([inert.mrkdwn(title, 300), *map(blocks.mention_mrkdwn, mentioned)])
    return Card(text, blocks.with_ids(rows, group.name), metadata(delivery_id, group=group.name))


def titled_line(line: Card, view: RequestView) -> Card:
    """Return a line about one request for its group's thread, which is about all of them."""
    about = inert.line(subject(without_command_in_title(view)), MAX_TITLE)
    head = blocks.rich_text(blocks.section(blocks.text(about, bold=True)))
    made = blocks.with_ids([head, *line.blocks], f"titled:{view.id}")
    return replace(line, text=f"{inert.mrkdwn(about, MAX_TITLE)} · {line.text}", blocks=made)


def _title(group: GroupDigest) -> str:
    """`6 requests of agent refunds wait for review`."""
    whose = f"agent {inert.line(group.first[0].chain, 60)}"
    if not group.waiting:
        return f"{group.requests:,} requests of {whose}: none waits any more"
    if group.waiting == group.requests:
        return f"{group.requests:,} requests of {whose} wait for review"
    verb = "waits" if group.waiting == 1 else "wait"
    return f"{group.waiting:,} of {group.requests:,} requests of {whose} {verb} for review"


def _said(group: GroupDigest, mentioned: Sequence[str]) -> Json:
    first = group.first[0]
    risk = max((view.risk for view in group.first), key=list(Risk).index).value
    pieces = [blocks.text(f"Up to {risk} risk · for "), blocks.requester(first.behalf)]
    if group.first_deadline is not None:
        pieces += [blocks.text(" · the first deadline is "), blocks.moment(group.first_deadline)]
    for each in mentioned:
        pieces += [blocks.text(" · "), blocks.mention(each)]
    return blocks.section(*pieces)


def _lines(group: GroupDigest) -> Json:
    items: list[Json] = []
    used = 0
    for view in group.first:
        line = _line(view)
        used += blocks.size(line)
        if used > MAX_CARD:
            break
        items.append(line)
    if (more := group.requests - len(items)) > 0:
        items.append(blocks.section(blocks.text(f"{more:,} more are in the list.", italic=True)))
    return blocks.bullets(items)


def _line(view: RequestView) -> Json:
    title = inert.line(subject(without_command_in_title(view)), MAX_TITLE)
    money = scalars.amounts(view)
    pieces = [blocks.text(title), *([blocks.text(f" · {money}")] if money else [])]
    if view.status is RequestStatus.WAITING:
        return blocks.section(*pieces)
    said = f"{OUTCOMES[view.status].sign} {status_words.of_request(view.standing)}"
    by = [blocks.text(" by "), blocks.person(view.decided_by)] if view.decided_by else []
    return blocks.section(*pieces, blocks.text(f"  {said}", bold=True), *by)


def _buttons(group: GroupDigest, title: str) -> list[Json]:
    value = page_value(PAGE_OF_GROUP, group=group.name)
    waiting = [view for view in group.first if view.status is RequestStatus.WAITING]
    fits = any(apart(view) is None for view in waiting)  # the last one, too: it has no card
    together = [together_button({"group": group.name}, title, style="primary")] if fits else []
    return blocks.actions(*together, blocks.button("Open the list", ACTION_LIST, value, title))
