"""Schedule updates of messages separately; store which versions work with the schema.

Create Date: 2026-11-21
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0002-updates.sql")


def downgrade() -> None:
    run_file("0002-drop.sql")
