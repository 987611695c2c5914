"""Store whether an attempt's tool only reads.

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
