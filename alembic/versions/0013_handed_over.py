"""Store when the asking program first read its approval.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0013-handed-over.sql")


def downgrade() -> None:
    run_file("0013-drop.sql")
