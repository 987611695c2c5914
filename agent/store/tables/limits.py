"""What actions take of the limits over time.

Which of it counts is the view ``limit_use_open`` of the migrations; a trigger keeps the sums.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    Numeric,
    Table,
    Text,
    Uuid,
    func,
    text,
)

from agent.store.tables.columns import Timestamp, metadata

limit_use = Table(
    "limit_use",
    metadata,
    Column("limit_name", Text, primary_key=True),
    Column("key", Uuid, primary_key=True),  # of a call or a request, or what a program told under one name
    Column("of_call", Boolean, nullable=False),
    Column("subject", Text, nullable=False),  # whose uses are added up
    Column("amount", Numeric, nullable=False),
    Column("settled", Boolean, nullable=False),  # counts from `at`, whatever becomes of the call or request
    Column("at", Timestamp, nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("amount >= 0 AND amount < 'Infinity'", name="amount_from_zero"),
    Index(
        "ix_limit_use_settled",
        "limit_name",
        "subject",
        "at",
        postgresql_include=["amount", "key"],
        postgresql_where=text("settled"),
    ),
    Index("ix_limit_use_open", "limit_name", "subject", postgresql_where=text("NOT settled")),
    Index("ix_limit_use_old", "at", postgresql_where=text("settled")),
)

limit_sum = Table(
    "limit_sum",
    metadata,
    Column("limit_name", Text, primary_key=True),
    Column("seconds", Integer, primary_key=True, autoincrement=False),  # 60, 3,600 or 86,400
    Column("subject", Text, primary_key=True),
    Column("since", Timestamp, primary_key=True),
    Column("amount", Numeric, nullable=False),  # of what is settled
    Column("uses", BigInteger, nullable=False),
)
