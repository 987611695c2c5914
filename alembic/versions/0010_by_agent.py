"""Index runs, requests and open calls by agent and status.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0010-by-agent.sql")


def downgrade() -> None:
    run_file("0010-drop.sql")
