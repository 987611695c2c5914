"""Concurrent steps of function agents, each waking its run; calls that sleep.

Create Date: 2026-11-23
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0025"
down_revision: str | None = "0024"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0025-branches.sql")


def downgrade() -> None:
    run_file("0025-drop.sql")
