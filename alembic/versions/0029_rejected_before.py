"""Link a request to the one in which people rejected the same action.

Create Date: 2026-11-23
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0029"
down_revision: str | None = "0028"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0029-rejected-before.sql")


def downgrade() -> None:
    run_file("0029-drop.sql")
