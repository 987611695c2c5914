from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agent.domain.short_ids import short_id
from slackbot.cards import blocks, inert
from slackbot.cards.values import ACTION_REVOKE_LISTED, Card, Json

MOST = 20


@dataclass(frozen=True, slots=True)
class GrantLine:
    id: UUID
    description: str
    uses: int
    max_uses: int
    until: datetime


def grant_list(lines: Sequence[GrantLine]) -> Card:
    if not lines:
        return Card("There are no grants that you may revoke.", [])
    heading = blocks.rich_text(blocks.section(blocks.text("Grants", bold=True)))
    text = "1 grant is live" if len(lines) == 1 else f"{len(lines):,} grants are live"
    return Card(text, blocks.with_ids([heading, *grant_rows(lines, MOST)], "grants"))


def grant_rows(lines: Sequence[GrantLine], most: int) -> list[Json]:
    rows: list[Json] = []
    for each in lines[:most]:
        about = each.description if inert.line(each.description, 10) else short_id(each.id)
        revoke = blocks.button("Revoke", ACTION_REVOKE_LISTED, str(each.id), about, "danger")
        rows.append(blocks.labelled(inert.line(each.description, 400), revoke))
        used = f"used {each.uses:,} of {each.max_uses:,} times · ends {blocks.moment_mrkdwn(each.until)}"
        rows.append(blocks.context(used))
    if (more := len(lines) - most) > 0:
        rows.append(blocks.context(f"… and {more:,} more: `signoff grants` lists all of them"))
    return rows
