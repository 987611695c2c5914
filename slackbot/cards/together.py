"""Several lines of one thread as one message, for when they waited together."""

from __future__ import annotations

from collections.abc import Sequence

from slackbot.cards import blocks, inert
from slackbot.cards.values import Card, Json, metadata

MAX_BLOCKS = 40
MAX_WHOLE = 9000  # what lines with all that they quote may take; one line alone may take more
MAX_SIZE = 11_500
MAX_TEXT = 3000


def together(lines: Sequence[Card], *, delivery_id: object | None = None) -> Card:
    """One message that shows the lines in order; its metadata names the first delivery.

    What does not fit is told in short, then counted. Raises ValueError for no line at all.
    """
    if not lines:
        raise ValueError("no line to show")
    if len(lines) == 1:
        return lines[0]
    whole = max(1, _fitting([(blocks.size(line.blocks), len(line.blocks)) for line in lines], MAX_WHOLE))
    rows = [block for line in lines[:whole] for block in line.blocks]
    brief = [_in_short(line) for line in lines[whole:]]
    told = _fitting([(blocks.size(each), 1) for each in brief], MAX_SIZE - blocks.size(rows))
    if more := len(brief) - told:
        brief[told:] = [blocks.section(blocks.text(f"… and {more:,} more events", italic=True))]
    if brief:
        rows.append(blocks.rich_text(*brief))
    return Card(_text(lines), blocks.with_ids(rows, "together"), metadata(delivery_id))


def _fitting(sizes: Sequence[tuple[int, int]], limit: int) -> int:
    """How many from the start fit into this much text and MAX_BLOCKS."""
    total = rows = 0
    for position, (size, count) in enumerate(sizes):
        total, rows = total + size, rows + count
        if total > limit or rows > MAX_BLOCKS:
            return position
    return len(sizes)


def _in_short(line: Card) -> Json:
    """Our own sentence, without what it quotes."""
    first: Json = line.blocks[0]["elements"][0]
    return first


def _text(lines: Sequence[Card]) -> str:
    """The fallback texts that fit as a whole: cut in the middle, an entity would come alive."""
    text = lines[0].text
    for position, line in enumerate(lines[1:], start=1):
        if inert.weight(text) + inert.weight(line.text) > MAX_TEXT - 40:
            return f"{text} · {len(lines) - position:,} more"
        text = f"{text} · {line.text}"
    return text
