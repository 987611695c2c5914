"""The questions of Agno's runs, which may go on without their answers: what is left over is withdrawn."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from signoff.client import AsyncApprovalClient
from signoff.errors import ApiError, Conflict, Unreachable
from signoff.integrations.agno_paused_runs import Runner, has_ended, is_run_of, stored_run

log = logging.getLogger("signoff.client")

MAX_FOUND = 1000
"""Open questions of an earlier process that are looked at once."""


class OpenQuestions:
    """Keys of questions, by agent and run."""

    def __init__(self, client: AsyncApprovalClient) -> None:
        self._client = client
        self._open: dict[tuple[str | None, str], set[str]] = defaultdict(set)
        self._left: set[str] = set()
        """Of runs that went on."""
        self._found: set[str | None] = set()
        """Agents whose open questions of an earlier process are among them."""

    def of(self, agent: Runner, run_id: str) -> set[str]:
        agent.set_id()
        return self._open[agent.id, run_id]

    def forget(self, agent: Runner, run_id: str) -> set[str]:
        return self._open.pop((agent.id, run_id), set())

    @contextmanager
    def asked_again(self, agent: Runner, run_id: str) -> Iterator[None]:
        """What the run does not ask again in this block is left over."""
        earlier = self.forget(agent, run_id)
        try:
            yield
        finally:
            self._left |= earlier - self._open.get((agent.id, run_id), set())

    async def find(self, agent: Runner, paused: AbstractSet[str]) -> None:
        """Other agents and programs may ask with the same key: each run is looked up once."""
        if agent.id in self._found:
            return
        found: dict[str, set[str]] = {}
        for each in await self._client.pending(limit=MAX_FOUND):
            run_id, colon, _ = each.request_id.rpartition(":")
            if colon:
                found.setdefault(run_id, set()).add(each.request_id)
        for run_id, names in found.items():
            run = None if run_id in paused else await stored_run(agent, run_id)
            if run_id in paused or (run is not None and is_run_of(agent, run)):
                self.of(agent, run_id).update(names)
        self._found.add(agent.id)

    async def close_left(self, agent: Runner, is_ours: Callable[[str], bool]) -> None:
        """Something else continued or ended runs that are not ours, such as AgentOS' `/continue` and `/cancel`."""
        for agent_id, run_id in [*self._open]:
            if agent_id != agent.id or is_ours(run_id):
                continue
            run = await stored_run(agent, run_id)
            if run is None:
                self.forget(agent, run_id)
            elif has_ended(run):
                self._left |= self.forget(agent, run_id)
        await self._withdraw_left()

    async def close_cancelled(self, agent: Runner, run_id: str) -> None:
        """What the service does not answer is left to the next look."""
        try:
            await self.find(agent, {run_id})
        except (ApiError, Unreachable) as error:
            log.warning("could not look for questions of the cancelled run %s: %s", run_id, error)
        self._left |= self.forget(agent, run_id)
        await self._withdraw_left()

    async def _withdraw_left(self) -> None:
        for name in [*self._left]:
            try:
                await self._client.withdraw(name)
            except Conflict:  # it has ended
                pass
            except (ApiError, Unreachable) as error:
                if getattr(error, "status", None) != 404:  # else it was never asked
                    log.warning("the question %s of a run that went on is still open: %s", name, error)
                    return
            self._left.discard(name)
