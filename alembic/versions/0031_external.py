"""Let programs execute agents' calls.

Create Date: 2026-11-23
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0031"
down_revision: str | None = "0030"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0031-external.sql")


def downgrade() -> None:
    run_file("0031-drop.sql")
