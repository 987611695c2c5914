"""Post a digest again when requests join later; the old one points to it.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0015-newer-digest.sql")


def downgrade() -> None:
    run_file("0015-drop.sql")
