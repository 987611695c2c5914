"""Lines of one thread that wait together: one sentence of those alike, one message of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from slackbot.cards import blocks, inert
from slackbot.cards.lines import COUNTED
from slackbot.cards.values import Card, Json, metadata

MAX_WHOLE = 28  # a short form has two at most, a message 50
MAX_SIZE = 8000  # of one line; short forms are added
MAX_BRIEF = 10
MAX_TEXT = 3000


def count_alike(bodies: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Successive lines that differ only in what they are about become one, with `texts`: one sentence, not many."""
    made: list[Mapping[str, Any]] = []
    for alike, group in groupby(bodies, _likeness):
        several = list(group)
        if alike is None or len(several) == 1:
            made += several
        else:
            proposed = sorted(several, key=lambda each: str(each.get("call") or ""))
            texts = [str(each.get("text") or "") for each in proposed]
            made.append({**several[0], "at": None, "text": None, "texts": texts})
    return made


def _likeness(body: Mapping[str, Any]) -> tuple[str, ...] | None:
    """``None``: a line that stands alone, such as one with a person's own words."""
    if body.get("line") not in COUNTED or body.get("reason"):
        return None
    return tuple(
        str(body.get(name)) for name in ("line", "outcome", "team", "user", "approved_by", "channel")
    )


def combine_lines(lines: Sequence[Card], *, delivery_id: object | None = None) -> Card:
    """Later lines are first shortened, then counted; metadata names the first delivery."""
    if not lines:
        raise ValueError("no line to show")
    if len(lines) == 1:
        return lines[0]
    whole = _how_many_fit(lines)
    rows = [block for line in lines[:whole] for block in line.blocks]
    brief = lines[whole : whole + MAX_BRIEF]
    rows += [block for line in brief for block in _in_short(line)]
    if more := len(lines) - whole - len(brief):
        rows.append(blocks.rich_text(blocks.section(blocks.text(f"… and {more:,} more events", italic=True))))
    return Card(_text(lines), blocks.with_ids(rows, "together"), metadata(delivery_id))


def _how_many_fit(lines: Sequence[Card]) -> int:
    size = rows = 0
    for position, line in enumerate(lines):
        size += sum(map(blocks.size, line.blocks))
        rows += len(line.blocks)
        if size > MAX_SIZE or rows > MAX_WHOLE:
            return max(1, position)
    return len(lines)


def _in_short(line: Card) -> list[Json]:
    said = blocks.rich_text(line.blocks[0]["elements"][0])
    return [said, *(each for each in line.blocks if each["type"] == "actions")]


def _text(lines: Sequence[Card]) -> str:
    """Fallback texts that fit completely: a cut entity could become active markup."""
    text = lines[0].text
    for position, line in enumerate(lines[1:], start=1):
        if inert.weight(text) + inert.weight(line.text) > MAX_TEXT - 40:
            return f"{text} · {len(lines) - position:,} more"
        text = f"{text} · {line.text}"
    return text
