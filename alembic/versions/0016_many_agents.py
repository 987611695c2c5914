"""Let the planner expect many agents, so that it uses the index of agents.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0016-many-agents.sql")


def downgrade() -> None:
    run_file("0016-drop.sql")
