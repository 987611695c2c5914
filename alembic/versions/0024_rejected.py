"""Index recently rejected actions.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0024"
down_revision: str | None = "0023"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0024-rejected.sql")


def downgrade() -> None:
    run_file("0024-drop.sql")
