"""A revision that nobody has written yet: additive, and listed as working with the version before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from agent.database import migrations

REVISION = '''
"""Add remarks."""

from agent.database.migrations import run_file

revision = "{next}"
down_revision = "{head}"


def upgrade():
    run_file("{next}-remarks.sql")


def downgrade():
    run_file("{next}-drop.sql")
'''
UP = """
ALTER TABLE agent_run ADD COLUMN remarks integer DEFAULT 0 NOT NULL;
CREATE TABLE remark (run_id uuid REFERENCES agent_run (id) ON DELETE CASCADE, text text NOT NULL);
DO $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT ON remark TO %I', current_setting('signoff.role'));
END;
$$;
CREATE OR REPLACE VIEW works_with AS SELECT '{next}'::text AS version, '{head}'::text AS oldest;
"""
DOWN = """
CREATE OR REPLACE VIEW works_with AS SELECT '{head}'::text AS version, '{head}'::text AS oldest;
DROP TABLE remark;
ALTER TABLE agent_run DROP COLUMN remarks;
"""


def write(folder: Path) -> str:
    """Add it to a copy of `alembic/`; return its number."""
    head = migrations.head()
    number = f"{int(head) + 1:04}"
    for path, content in (
        (f"versions/{number}_remarks.py", REVISION),
        (f"sql/{number}-remarks.sql", UP),
        (f"sql/{number}-drop.sql", DOWN),
    ):
        (folder / path).write_text(content.format(next=number, head=head).lstrip())
    return number


@contextmanager
def code_with(folder: Path) -> Iterator[None]:
    """Be the code whose migrations are these."""
    remembered = (migrations.head, migrations.lineage, migrations._versions)
    with patch.object(migrations, "migrations_path", lambda: folder):
        for each in remembered:
            each.cache_clear()
        yield
    for each in remembered:
        each.cache_clear()
