"""Index each key's waiting requests, so that one key cannot fill the database.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0009-waiting-of-keys.sql")


def downgrade() -> None:
    run_file("0009-drop.sql")
