"""The words by which requests are found."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Identity, Index, Table, Uuid
from sqlalchemy.dialects.postgresql import TSVECTOR

from agent.store.tables.columns import metadata

request_search = Table(
    "request_search",
    metadata,
    Column("request_id", Uuid, ForeignKey("approval_request.id", ondelete="CASCADE"), primary_key=True),
    Column("recorded", BigInteger, nullable=False),  # how much was on record about the request then
    Column("words", TSVECTOR, nullable=False),  # as people may read them: what is masked is not among them
    Index("ix_request_search_words", "words", postgresql_using="gin"),
)

search_due = Table(
    "search_due",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("request_id", Uuid, nullable=False),  # its words are not, or no longer, those of request_search
)
