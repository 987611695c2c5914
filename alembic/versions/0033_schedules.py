"""Add schedules that start agents, with the outcome of each time.

Create Date: 2026-11-23
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0033"
down_revision: str | None = "0032"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0033-schedules.sql")


def downgrade() -> None:
    run_file("0033-drop.sql")
