"""Show in `pending_reviews` what programs sent, unchanged.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0014-guides-table.sql")


def downgrade() -> None:
    run_file("0014-drop.sql")
