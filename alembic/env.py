"""For `agent.database.migrations`, which passes its target, and the `alembic` command.

The command reads `SIGNOFF_OWNER_URL` or `DATABASE_URL`, and `SIGNOFF_DB_SCHEMA`; `-x url=…`, `-x schema=…` and `-x
role=…` override them. `--sql` prints the statements.
"""

from __future__ import annotations

import os

from alembic import context

from agent.database import migrations


def main() -> None:
    given = {**context.get_x_argument(as_dictionary=True), **context.config.attributes}
    target = given.get("target") or migrations.Target.read(given, os.environ)
    if context.is_offline_mode():
        context.configure(dialect_name="postgresql", literal_binds=True)
        with context.begin_transaction():
            for statement in target.preparation():
                context.execute(statement)
            context.run_migrations()
        return
    with migrations.session(target) as connection:
        context.configure(connection=connection)
        context.config.attributes["before"] = context.get_context().get_current_revision()
        context.run_migrations()


main()
