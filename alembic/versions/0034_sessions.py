"""Add the session that a program's question belongs to, and indexes over people's own words.

Create Date: 2026-11-26
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0034"
down_revision: str | None = "0033"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0034-sessions.sql")


def downgrade() -> None:
    run_file("0034-drop.sql")
