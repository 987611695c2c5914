"""Retries need the request's quorum; a late success ends an unsettled doubt.

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
