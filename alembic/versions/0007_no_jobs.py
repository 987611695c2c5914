"""Use the tables as the queue: give calls their agent, and drop procrastinate.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0007-no-jobs.sql")


def downgrade() -> None:
    run_file("0007-drop.sql")
    run_file("procrastinate-3.10.0.sql")
    run_file("0007-rights.sql")
