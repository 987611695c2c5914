"""Keep every judgement with its inputs.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0023"
down_revision: str | None = "0022"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0023-judgement.sql")


def downgrade() -> None:
    run_file("0023-drop.sql")
