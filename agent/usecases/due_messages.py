"""A message to Slack as a drain takes it, and its possible outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from agent.store.outbox import Destination


@dataclass(frozen=True, slots=True)
class DueMessage:
    """One message to send. Lines waiting for the same thread go out as one message (``bodies``)."""

    destination: Destination
    epoch: int  # of the lease
    ids: tuple[UUID, ...]
    kind: str
    request_id: UUID | None
    run_id: UUID | None
    agent: str | None  # the sender of a digest: an agent, or `key:NAME`
    turn: str  # the sender, for taking turns
    bodies: tuple[Mapping[str, object], ...]
    wanted: int
    attempts: int
    error: str | None  # of the previous attempt
    ambiguous: bool  # an earlier attempt may have been accepted
    thread_ts: str | None  # root to reply to, for lines
    ts: str | None  # message to update, for cards and roots

    @property
    def newer_digest(self) -> str | None:
        """The message that replaced this digest, if it is outdated."""
        newer = self.bodies[0].get("digest") if self.kind == "digest" else None
        return str(newer) if newer else None

    @property
    def id(self) -> UUID:
        """Id of the first delivery, which the message's metadata carries."""
        return self.ids[0]


@dataclass(frozen=True, slots=True)
class Sent:
    """Posted as ``ts``; the next message of this kind follows after ``pause`` seconds."""

    due: DueMessage
    ts: str | None
    pause: float


@dataclass(frozen=True, slots=True)
class Dead:
    """Slack rejects it in every form: keep it with the reason and notify ``admin``. ``pause`` as in ``Sent``."""

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
    """Retry after ``seconds``. The next message of this kind follows after ``pause`` seconds."""

    due: DueMessage
    error: str
    seconds: float
    pause: float = 0.0
    ambiguous: bool = False
    """Slack may have accepted the message, so look for it before sending it again."""
    refused: bool = False
    """Slack refused it: give up when the message and the deadline of its request are both a day old."""


Outcome = Sent | Dead | Gone | Postponed
"""The outcome of sending a message."""
