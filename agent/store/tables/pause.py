"""The table of the pause switch."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from agent.store.tables.columns import created, metadata

pause = Table(
    "pause",
    metadata,
    Column("scope", Text, primary_key=True),  # an agent's name, or "*"
    Column("by", Text, nullable=False),
    Column("reason", Text),
    created(),
)
