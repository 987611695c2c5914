"""Store the masked words of requests for the inbox search.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0012-search.sql")


def downgrade() -> None:
    run_file("0012-drop.sql")
