"""Keep past policies, and which one judged each request and attempt.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0022"
down_revision: str | None = "0021"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0022-policy.sql")


def downgrade() -> None:
    run_file("0022-drop.sql")
