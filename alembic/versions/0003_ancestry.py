"""A run is stored with its ancestors, and with the API key that it belongs to; so is a request of a program.

Revision ID: 0003
Revises: 0002
Create Date: 2026-11-24
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0003-ancestry.sql")


def downgrade() -> None:
    run_file("0003-drop.sql")
