"""Index waiting lists by deadline and risk, per audience.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0021"
down_revision: str | None = "0020"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0021-list-orders.sql")


def downgrade() -> None:
    run_file("0021-drop.sql")
