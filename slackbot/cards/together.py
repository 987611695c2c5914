"""Several lines of one thread as one message, for when they waited together."""

from __future__ import annotations

from collections.abc import Sequence

from slackbot.cards import inert
from slackbot.cards.values import Card, metadata

MAX_BLOCKS = 50
MAX_TEXT = 3000


def together(lines: Sequence[Card], *, delivery_id: object | None = None) -> Card:
    """One message that shows the lines in order; its metadata names the first delivery. Raises ValueError for none."""
    if not lines:
        raise ValueError("no line to show")
    if len(lines) == 1:
        return lines[0]
    rows = [
        {**block, "block_id": f"{number}:{block['block_id']}"[:255]}
        for number, line in enumerate(lines)
        for block in line.blocks
    ]
    text = inert.shortened(" · ".join(line.text for line in lines), MAX_TEXT)
    return Card(text, rows[:MAX_BLOCKS], metadata(delivery_id))
