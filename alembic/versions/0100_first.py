"""Create the schema: enums, tables, indexes, guards of the record, views, the service's role and its rights.

Until the first release its files in `sql/0100/` may be edited: a database that another text of them made is refused.
Then `agent.database.migrations.lineage` becomes a constant, and every change is a revision of its own.

Create Date: 2026-11-26
"""

from __future__ import annotations

from agent.database.migrations import run_file, schema_files

revision: str = "0100"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    for path in schema_files():
        run_file(f"{revision}/{path.name}")


def downgrade() -> None:
    run_file("0100-drop.sql")
