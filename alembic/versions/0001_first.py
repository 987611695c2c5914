"""Create tables, procrastinate 3.10, guards of the audit log, the service's role and its rights.

Create Date: 2026-11-21
"""

from __future__ import annotations

from agent.database.migrations import run_file

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    run_file("0001-tables.sql")
    run_file("procrastinate-3.10.0.sql")
    run_file("0001-guards.sql")
    run_file("0001-rights.sql")


def downgrade() -> None:
    run_file("procrastinate-3.10.0-drop.sql")
    run_file("0001-drop.sql")
