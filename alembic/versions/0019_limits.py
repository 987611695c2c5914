"""Store what actions use of limits over time, and what counts.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0019"
down_revision: str | None = "0018"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0019-limits.sql")


def downgrade() -> None:
    run_file("0019-drop.sql")
