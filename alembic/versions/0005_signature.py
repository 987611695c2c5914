"""Store a digest of the tool's parameters with each revision.

Create Date: 2026-11-22
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0005-signature.sql")


def downgrade() -> None:
    run_file("0005-drop.sql")
