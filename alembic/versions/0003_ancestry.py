"""Store a run's ancestors and API key, and the key of a program's request.

Create Date: 2026-11-24
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0003-ancestry.sql")


def downgrade() -> None:
    run_file("0003-drop.sql")
