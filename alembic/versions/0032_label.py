"""Store a run's label, shown beside its agent's name.

Create Date: 2026-11-23
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0032"
down_revision: str | None = "0031"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0032-label.sql")


def downgrade() -> None:
    run_file("0032-drop.sql")
