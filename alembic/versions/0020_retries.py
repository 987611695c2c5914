"""Store when a failed call is retried.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0020"
down_revision: str | None = "0019"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0020-retries.sql")


def downgrade() -> None:
    run_file("0020-drop.sql")
