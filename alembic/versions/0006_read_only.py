"""An attempt is stored with whether its tool only reads.

Revision ID: 0006
Revises: 0005
Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0006-read-only.sql")


def downgrade() -> None:
    run_file("0006-drop.sql")
