"""Where the spans of a run belong."""

from uuid import UUID

from agent import tracing
from agent.database.pools import DatabaseError
from agent.domain.run import RunView
from agent.runtime.services import Services
from agent.store import views


async def root_of(services: Services, run: RunView) -> UUID:
    """The run whose trace this one belongs to: the one at the top. Looked up only while somebody follows."""
    if run.parent_run_id is None or not tracing.is_on():
        return run.id
    try:
        async with services.db.connection() as connection:
            return await views.root_of_run(connection, run.id)
    except DatabaseError:
        return run.id
