"""Index undeliverable messages.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0011-dead-messages.sql")


def downgrade() -> None:
    run_file("0011-drop.sql")
