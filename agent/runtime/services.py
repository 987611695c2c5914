"""What running agents need, assembled once per process by the composition root."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from agent.database.pools import Database
from agent.domain.facts import Facts, FactsSource
from agent.domain.facts_sources import FactsLookup
from agent.domain.grants import CallToCover, Grant
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.runtime.agents import Registry
from agent.runtime.concurrency import Concurrency
from agent.runtime.full_limits import FullLimits
from agent.runtime.heartbeat import Heartbeat
from agent.runtime.joint_writes import JointWrites
from agent.runtime.model import Model
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.user_code import UserCode
from agent.store.outbox import Destination
from signoff.values import Action, Person


def worker_name() -> str:
    """Unique, and shows where the process runs."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class GrantChecks(Protocol):
    """Checks of a grant's use that only the front end can make."""

    async def standings(
        self, people: Collection[Person], approvers: Sequence[str], channel_id: str
    ) -> Mapping[Person, Standing]:
        """What these people may do now with a request with these reviewers; at most a minute old."""

    async def is_scanned(self, call: CallToCover) -> bool:
        """Whether the whole call was scanned for secrets in time."""


class LookUp(Protocol):
    """Requests facts of a program's action from the URL in the policy."""

    async def __call__(
        self, lookup: FactsLookup, action: Action, agent: str, requester: str | None, within: float = ...
    ) -> Facts: ...


async def fail_lookup(
    lookup: FactsLookup, action: Action, agent: str, requester: str | None, within: float = 0.0
) -> Facts:
    """Fail every lookup, in a process that sends no HTTP requests."""
    return Facts(failed=True, source=FactsSource.SIGNOFF)


@dataclass(frozen=True, slots=True)
class Services:
    """`destination`: channel of a card, from its rule's channel."""

    db: Database
    policies: PolicyInForce
    registry: Registry
    model: Model
    heartbeat: Heartbeat
    worker: str
    destination: Callable[[str | None], Destination]
    grant_checks: GrantChecks | None = None
    """Checks of granters; ``None``: no grant covers anything."""
    user_code: UserCode = field(default_factory=UserCode, repr=False)
    look_up: LookUp = field(default=fail_lookup, repr=False)
    joint_writes: JointWrites = field(init=False, repr=False)
    concurrency: Concurrency = field(init=False, repr=False)
    known_grants: dict[UUID, Grant] = field(default_factory=dict, repr=False)
    """Content of approved grants, which never changes; avoids reading those that do not match."""
    full_limits: FullLimits = field(default_factory=FullLimits, repr=False)
    _background: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        """Waves and wake-ups belong to one database."""
        object.__setattr__(self, "joint_writes", JointWrites(self.db, self.worker))
        object.__setattr__(self, "concurrency", Concurrency(self.db.wakeups.send, self.db.wakeups.announce))

    @property
    def policy(self) -> Policy:
        """The policy in force. Raises OutdatedPolicy if it cannot be loaded here."""
        return self.policies.policy

    def watch(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Let something outlive its job, such as a tool beyond its timeout."""
        task = asyncio.create_task(coroutine)
        self._background.add(task)  # the event loop keeps only weak references
        task.add_done_callback(self._background.discard)
