"""Constructors for Block Kit, with Slack's limits. External text goes into rich text, which Slack does not parse."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from agent.domain.request_view import Behalf
from signoff import formats
from signoff.formats import enumerated
from signoff.values import Person
from signoff.visible_text import one_line
from slackbot.cards import inert
from slackbot.cards.values import Json

HEADER_LIMIT = 150
TEXT_LIMIT = 3000
BUTTON_LIMIT = 30  # 75 are allowed, about 30 show
OPTION_LIMIT = 75
SPOKEN_LIMIT = 75
MAX_NAMED = 3  # people in a line

_USER = re.compile(r"[UW][A-Z0-9]{1,30}\Z", re.ASCII)
_GROUP = re.compile(r"S[A-Z0-9]{1,30}\Z", re.ASCII)
_CHANNEL = re.compile(r"[CGD][A-Z0-9]{1,30}\Z", re.ASCII)
_LINK = re.compile(r"https://[!#-;=?-\[\]_a-z~]{1,2000}\Z", re.ASCII)  # printable, without <>|"\^`{}
_SHOWN = ("text", "fallback", "accessibility_label")
_DATE_FORMAT = "{date_short_pretty} at {time}"


def text(content: str, *, bold: bool = False, code: bool = False, italic: bool = False) -> Json:
    """Make external text visible (`inert.line`) first."""
    style = {name: True for name, on in (("bold", bold), ("code", code), ("italic", italic)) if on}
    return {"type": "text", "text": content, **({"style": style} if style else {})}


def texts(content: str) -> list[Json]:
    """Pieces that Slack accepts and shows as one text."""
    pieces, rest = [], content
    while rest:
        piece, _ = inert.cut(rest, TEXT_LIMIT)
        pieces.append(text(piece))
        rest = rest[len(piece) :]
    return pieces


def mention(person_or_group: str) -> Json:
    """An invalid id becomes plain text."""
    if _USER.match(person_or_group):
        return {"type": "user", "user_id": person_or_group}
    if _GROUP.match(person_or_group):
        return {"type": "usergroup", "usergroup_id": person_or_group}
    return text(inert.line(person_or_group, 60))


def person(who: Person | None, nobody: str = "somebody") -> Json:
    """Return a mention of a person; without one, `nobody` is shown as plain text."""
    return mention(who.user_id) if who else text(nobody)


def people(who: Sequence[Person | str], at_most: int = MAX_NAMED) -> list[Json]:
    """People, or their ids: `@Ada, @Grace and 2 more`."""
    mentions = [mention(each.user_id if isinstance(each, Person) else each) for each in who]
    return [text(each) if isinstance(each, str) else each for each in enumerated(mentions, at_most)]


def requester(behalf: Behalf) -> Json:
    """The person for whom an action is asked or allowed."""
    return text("anyone") if behalf.anyone else person(behalf.requester, "nobody in Slack")


def channel(channel_id: str) -> Json:
    """Return a link to a channel; an invalid id becomes plain text."""
    if _CHANNEL.match(channel_id):
        return {"type": "channel", "channel_id": channel_id}
    return text(inert.line(channel_id, 60))


def moment(at: datetime) -> Json:
    """In the reader's zone; UTC in clients that cannot convert it."""
    return {
        "type": "date",
        "timestamp": int(at.timestamp()),
        "format": _DATE_FORMAT,
        "fallback": formats.moment(at),
    }


def link(url: str, label: str) -> Json:
    """An unsafe address becomes plain text."""
    if _LINK.match(url):
        return {"type": "link", "url": url, "text": label}
    return text(label)


# ---------------------------------------------------------------- mrkdwn that holds ids and numbers only
def mention_mrkdwn(person_or_group: str) -> str:
    """`<@U…>` or `<!subteam^S…>`; empty for an invalid id."""
    if _USER.match(person_or_group):
        return f"<@{person_or_group}>"
    return f"<!subteam^{person_or_group}>" if _GROUP.match(person_or_group) else ""


def moment_mrkdwn(at: datetime) -> str:
    """`<!date^…>` in the reader's time zone, else UTC."""
    return f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time}}|{formats.moment(at)}>"


def section(*pieces: Json) -> Json:
    """Drops empty texts, which Slack refuses."""
    return {"type": "rich_text_section", "elements": [piece for piece in pieces if piece.get("text") != ""]}


def bullets(items: Iterable[Json], indent: int = 0) -> Json:
    """`indent` is 0 to 8."""
    deeper = {"indent": indent} if indent else {}
    return {"type": "rich_text_list", "style": "bullet", "elements": list(items), **deeper}


def quote(*pieces: Json) -> Json:
    """Return a quotation for rich text; empty texts, which Slack refuses, are dropped."""
    return {"type": "rich_text_quote", "elements": [piece for piece in pieces if piece.get("text") != ""]}


def preformatted(content: str) -> Json:
    """Return a text as a code box for rich text; a long one is one box of several pieces."""
    return {"type": "rich_text_preformatted", "elements": texts(content)}


def rich_text(*parts: Json) -> Json:
    """Return a rich text block of sections, lists, quotes and boxes; Slack parses none of their text."""
    return {"type": "rich_text", "elements": list(parts)}


def header(content: str) -> Json:
    """The title must already be inert."""
    return {"type": "header", "text": plain(content, HEADER_LIMIT)}


def context(*pieces: str | Json) -> Json:
    """Small print. A text is mrkdwn: ids, numbers and times, never external text, which is `plain`."""
    return {
        "type": "context",
        "elements": [
            {"type": "mrkdwn", "text": each, "verbatim": True} if isinstance(each, str) else each
            for each in pieces
        ],
    }


def labelled(content: str, accessory: Json | None = None) -> Json:
    """The text must already be inert."""
    made: Json = {"type": "section", "text": plain(inert.shortened(content, 400), 400)}
    return made | ({"accessory": accessory} if accessory else {})


def divider() -> Json:
    """Return a block that draws a horizontal line."""
    return {"type": "divider"}


def actions(*buttons: Json) -> list[Json]:
    """A list of blocks, empty without buttons, because Slack refuses an empty row."""
    return [{"type": "actions", "elements": list(buttons)}] if buttons else []


def button(
    label: str,
    action_id: str,
    value: str | None,
    about: str,
    style: str | None = None,
    confirm: Json | None = None,
) -> Json:
    """`about` tells equal buttons apart where they are read aloud. `style` is "primary" or "danger"."""
    made = {"type": "button", "text": plain(label, BUTTON_LIMIT), "action_id": action_id}
    made |= {"value": value} if value is not None else {}
    made |= {"accessibility_label": spoken(label, about)}
    return made | ({"style": style} if style else {}) | ({"confirm": confirm} if confirm else {})


def spoken(label: str, about: str) -> str:
    """`Approve: Refund order 12`."""
    whole = f"{label}: {one_line(about)}"
    if inert.weight(whole) <= SPOKEN_LIMIT:
        return whole
    return f"{inert.cut(whole, SPOKEN_LIMIT - 1)[0].rstrip()}…"


def input_block(
    block_id: str, label: str, element: Json, *, optional: bool = False, hint: str | None = None
) -> Json:
    """The submission is read by ``block_id``."""
    made: Json = {"type": "input", "block_id": block_id, "label": plain(inert.line(label, 150), 150)}
    made |= {"element": element, "optional": optional}
    return made | ({"hint": plain(inert.line(hint, 300), 300)} if hint else {})


def option(label: str, value: str) -> Json:
    """75 characters for each text are safe everywhere."""
    return {"text": plain(inert.line(label, OPTION_LIMIT), OPTION_LIMIT), "value": value}


def confirm(title: str, question: str, yes: str, *, style: str) -> Json:
    """Return the dialog that asks before a press counts; `style` (primary or danger) colours its yes."""
    return {
        "title": plain(title, 100),
        "text": plain(question, 300),
        "confirm": plain(yes, BUTTON_LIMIT),
        "deny": plain("Cancel", BUTTON_LIMIT),
        "style": style,
    }


def plain(content: str, limit: int) -> Json:
    """Text that Slack does not parse; emoji names stay names."""
    return {"type": "plain_text", "text": inert.shortened(content, limit) or "…", "emoji": False}


def size(part: Any) -> int:
    """Return the weight of all texts that people see in blocks or a part of one, as Slack counts it."""
    if isinstance(part, list):
        return sum(map(size, part))
    if not isinstance(part, dict):
        return 0
    own = sum(inert.weight(part[key]) for key in _SHOWN if isinstance(part.get(key), str))
    return own + sum(size(member) for member in part.values())


def with_ids(blocks: Sequence[Json], state: str) -> list[Json]:
    """Derive each `block_id` from place and content: Slack wants a new one for a changed block."""
    named = []
    for position, block in enumerate(blocks):
        content = json.dumps([state, block], sort_keys=True).encode()
        named.append({**block, "block_id": f"signoff:{position}:{hashlib.sha256(content).hexdigest()[:16]}"})
    return named
