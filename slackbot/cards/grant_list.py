"""Grants as an answer to a command: what each allows, how much of it is used, and a button to revoke it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from slackbot.cards import blocks
from slackbot.cards.values import ACTION_REVOKE_LISTED, Card

MOST = 20


@dataclass(frozen=True, slots=True)
class GrantLine:
    """A grant that whoever reads the list may revoke."""

    id: UUID
    description: str
    uses: int
    max_uses: int
    until: datetime


def grant_list(lines: Sequence[GrantLine]) -> Card:
    """The first twenty; the rest is counted."""
    if not lines:
        return Card("No calls that you review are allowed in advance.", [])
    rows = [blocks.rich_text(blocks.section(blocks.text("Allowed in advance", bold=True)))]
    for each in lines[:MOST]:
        revoke = blocks.button("Revoke", ACTION_REVOKE_LISTED, str(each.id), "danger")
        rows.append(blocks.labelled(each.description, revoke))
        used = f"used {each.uses:,} of {each.max_uses:,} times · ends {blocks.moment_mrkdwn(each.until)}"
        rows.append(blocks.context(used))
    if (more := len(lines) - MOST) > 0:
        rows.append(blocks.context(f"… and {more:,} more: `signoff grants` lists all of them"))
    return Card(f"{len(lines):,} grants are live", blocks.with_ids(rows, "grants"))
