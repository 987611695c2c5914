"""Add grants (consent in advance) and their uses.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0018-grants.sql")


def downgrade() -> None:
    run_file("0018-drop.sql")
