"""Sum the uses that count for limits, so that long windows are cheap.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0027"
down_revision: str | None = "0026"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0027-limit-sums.sql")


def downgrade() -> None:
    run_file("0027-drop.sql")
