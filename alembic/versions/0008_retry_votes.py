"""Retry takes the quorum of its request; a late success ends a doubt that nobody has settled.

Revision ID: 0008
Revises: 0007
Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0008-retry-votes.sql")


def downgrade() -> None:
    run_file("0008-drop.sql")
