"""Store the people whose approval of a request does not count, and why.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0004-excluded.sql")


def downgrade() -> None:
    run_file("0004-drop.sql")
