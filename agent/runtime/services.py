"""Assembled once per process by the composition root."""

import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from agent.database.pools import Database
from agent.domain.errors import Refusal, Refused
from agent.domain.facts import Facts, FactsLookup, FactsSource
from agent.domain.grants import CallToCover, Grant
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.runtime.agents import Registry
from agent.runtime.concurrency import Concurrency, FullLimits
from agent.runtime.heartbeat import Heartbeat
from agent.runtime.joint_writes import JointWrites
from agent.runtime.model import Model
from agent.runtime.policy_in_force import PolicyInForce
from agent.runtime.user_code import UserCode
from agent.store.outbox import Destination
from agent.store.views import OpenCallDetails, open_call_details
from agent.usecases.joint_reads import JointRead
from signoff.values import Action, Person


def worker_name() -> str:
    """Return a new, unique name for this process's worker, which starts with its host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class GrantChecks(Protocol):
    """Checks that only the front end can make."""

    async def standings(
        self, people: Collection[Person], approvers: Sequence[str], channel_id: str
    ) -> Mapping[Person, Standing]:
        """Rights under these reviewers; at most a minute old."""

    async def is_scanned(self, call: CallToCover) -> bool:
        """Whether the whole call was scanned for secrets in time."""


class LookUp(Protocol):
    """Requests a program's facts from the policy's URL; ``principal`` is the key that asks."""

    async def __call__(
        self,
        lookup: FactsLookup,
        action: Action,
        agent: str,
        requester: str | None,
        principal: str,
        within: float = ...,
    ) -> Facts: ...


async def know_nobody(person: Person | None) -> None:
    """A process without Slack confirms nobody as a member. None (a program) passes."""
    if person is not None:
        raise Refused(Refusal.LOOKUP_FAILED)


async def fail_lookup(
    lookup: FactsLookup,  # noqa: ARG001
    action: Action,  # noqa: ARG001
    agent: str,  # noqa: ARG001
    requester: str | None,  # noqa: ARG001
    principal: str,  # noqa: ARG001
    within: float = 0.0,  # noqa: ARG001
) -> Facts:
    """A process that sends no HTTP requests fails every lookup."""
    return Facts(failed=True, source=FactsSource.SIGNOFF)


@dataclass(frozen=True, slots=True)
class Services:
    """`destination`: a card's channel, from its rule's."""

    db: Database
    policies: PolicyInForce
    registry: Registry
    model: Model
    heartbeat: Heartbeat
    worker: str
    destination: Callable[[str | None], Destination]
    grant_checks: GrantChecks | None = None
    """``None``: no grant covers anything."""
    check_member: Callable[[Person | None], Awaitable[None]] = know_nobody
    """Raises ``Refused`` unless Slack confirms membership now, from an answer at most a minute old."""
    user_code: UserCode = field(default_factory=UserCode, repr=False)
    look_up: LookUp = field(default=fail_lookup, repr=False)
    joint_writes: JointWrites = field(init=False, repr=False)
    open_calls: JointRead[UUID, OpenCallDetails] = field(init=False, repr=False)
    concurrency: Concurrency = field(init=False, repr=False)
    known_grants: dict[UUID, Grant] = field(default_factory=dict, repr=False)
    """Approved grants never change; those that do not match are not read again."""
    full_limits: FullLimits = field(default_factory=FullLimits, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "joint_writes", JointWrites(self.db, self.worker))
        object.__setattr__(
            self, "open_calls", JointRead(lambda call_ids: self.db.read(open_call_details, call_ids))
        )
        object.__setattr__(self, "concurrency", Concurrency(self.db.wakeups.send, self.db.wakeups.announce))

    @property
    def policy(self) -> Policy:
        """Raises OutdatedPolicy if the policy in force cannot be loaded here."""
        return self.policies.policy
