"""The table of requests' words."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Table, Uuid
from sqlalchemy.dialects.postgresql import TSVECTOR

from agent.store.tables.columns import metadata

request_search = Table(
    "request_search",
    metadata,
    Column("request_id", Uuid, primary_key=True),
    Column("recorded", BigInteger, nullable=False),  # number of audit events at that time
    Column("words", TSVECTOR, nullable=False),  # as people may read them, without masked values
)
