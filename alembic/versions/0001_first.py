"""The whole database: tables, procrastinate 3.10, guards of the record, the service's role and its rights.

Revision ID: 0001
Revises:
Create Date: 2026-11-21
"""

from __future__ import annotations

from pathlib import Path

from alembic import context, op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None

SQL = Path(__file__).resolve().parent.parent / "sql"


def upgrade() -> None:
    run("0001-tables.sql")
    run("procrastinate-3.10.0.sql")
    run("0001-guards.sql")
    run("0001-rights.sql")


def downgrade() -> None:
    run("procrastinate-3.10.0-drop.sql")
    run("0001-drop.sql")


def run(name: str) -> None:
    """Executes the statements of a file below `sql/`, to the letter: no parameters, no `%` doubled."""
    statements = (SQL / name).read_text(encoding="utf-8")
    if context.is_offline_mode():
        op.get_context().impl.static_output(statements)
    else:
        op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})
