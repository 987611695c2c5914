"""Count what observed checkpoints would have asked, and notify operators weekly.

Create Date: 2026-11-23
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0028"
down_revision: str | None = "0027"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0028-observed.sql")


def downgrade() -> None:
    run_file("0028-drop.sql")
