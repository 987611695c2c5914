"""Index a channel's waiting messages by kind.

Create Date: 2026-11-23
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0026"
down_revision: str | None = "0025"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0026-delivery-kinds.sql")


def downgrade() -> None:
    run_file("0026-drop.sql")
