"""A message to Slack as a drain takes it, and its outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from agent.store.outbox import Destination


@dataclass(frozen=True, slots=True)
class DueMessage:
    """One message to send. Lines waiting for one thread go out together (``bodies``)."""

    destination: Destination
    epoch: int  # of the lease
    ids: tuple[UUID, ...]
    kind: str
    request_id: UUID | None
    run_id: UUID | None
    agent: str | None  # of a digest: an agent, or `key:NAME`
    turn: str  # for taking turns
    bodies: tuple[Mapping[str, object], ...]
    wanted: int
    attempts: int
    error: str | None  # of the previous attempt
    ambiguous: bool  # an earlier attempt may have been accepted
    thread_ts: str | None  # for lines
    ts: str | None  # to update, for cards and roots

    @property
    def newer_digest(self) -> str | None:
        """The message that replaced this digest, if outdated."""
        newer = self.bodies[0].get("digest") if self.kind == "digest" else None
        return str(newer) if newer else None

    @property
    def id(self) -> UUID:
        """The first delivery, which the message's metadata carries."""
        return self.ids[0]


@dataclass(frozen=True, slots=True)
class Sent:
    """Posted as ``ts``; the next message of this kind follows after ``pause`` seconds."""

    due: DueMessage
    ts: str | None
    pause: float


@dataclass(frozen=True, slots=True)
class Dead:
    """Rejected in every form: keep it with the reason and notify ``admin``."""

    due: DueMessage
    error: str
    pause: float
    admin: Destination | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """The message to update or answer was deleted: post it ``again``, or drop it."""

    due: DueMessage
    again: bool
    pause: float


@dataclass(frozen=True, slots=True)
class Postponed:
    """Retry after ``seconds``; the next message of this kind follows after ``pause`` seconds."""

    due: DueMessage
    error: str
    seconds: float
    pause: float = 0.0
    ambiguous: bool = False
    """Slack may have accepted it, so look for it before sending again."""
    refused: bool = False
    """Give up when the message and its request's deadline are both a day old."""


Outcome = Sent | Dead | Gone | Postponed
