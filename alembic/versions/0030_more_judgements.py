"""Keep judgements of edits and grant uses, and of the checkpoints alone.

Create Date: 2026-11-23
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0030"
down_revision: str | None = "0029"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0030-more-judgements.sql")


def downgrade() -> None:
    run_file("0030-drop.sql")
