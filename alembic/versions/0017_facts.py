"""Store the source of a request's facts; let keys send facts.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0017-facts.sql")


def downgrade() -> None:
    run_file("0017-drop.sql")
