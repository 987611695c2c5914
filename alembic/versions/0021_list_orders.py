"""Let lists of what waits be read by deadline and by risk from an index, audience by audience.

Revision ID: 0021
Revises: 0020
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
