from __future__ import annotations

from collections.abc import Sequence

from slackbot.cards import blocks, inert
from slackbot.cards.values import Card, Json, metadata

MAX_WHOLE = 28  # a short form has two at most, a message 50
MAX_SIZE = 8000  # of one line; short forms are added
MAX_BRIEF = 10
MAX_TEXT = 3000


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
