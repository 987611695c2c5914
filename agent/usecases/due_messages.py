"""A message to Slack as a drain takes it, and its possible outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from agent.store.outbox import Destination


@dataclass(frozen=True, slots=True)
class DueMessage:
    """One message to be sent. Lines of the same thread that wait together go out as one (``bodies``)."""

    destination: Destination
    epoch: int  # of the lease
    ids: tuple[UUID, ...]
    kind: str
    request_id: UUID | None
    run_id: UUID | None
    agent: str | None  # whose digest it is: an agent, or `key:NAME`
    turn: str  # whose turn it was
    bodies: tuple[Mapping[str, object], ...]
    wanted: int
    attempts: int
    error: str | None  # of the attempt before
    ambiguous: bool  # an earlier attempt may have been accepted
    thread_ts: str | None  # root to reply to, for lines
    ts: str | None  # message to update, for cards and roots

    @property
    def newer_digest(self) -> str | None:
        """The message that has taken the place of this digest, if it is outdated."""
        newer = self.bodies[0].get("digest") if self.kind == "digest" else None
        return str(newer) if newer else None

    @property
    def id(self) -> UUID:
        """The first delivery's id: what the message's metadata carries."""
        return self.ids[0]


@dataclass(frozen=True, slots=True)
class Sent:
    """It stands in the channel as ``ts``; the next of its like follows after ``pause`` seconds."""

    due: DueMessage
    ts: str | None
    pause: float


@dataclass(frozen=True, slots=True)
class Dead:
    """Slack takes it in no form; kept with the reason, and ``admin`` is told. The pause is as after a message."""

    due: DueMessage
    error: str
    pause: float
    admin: Destination | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """The message to be changed, or answered, is there no more: it is posted ``again``, or nothing is left to do."""

    due: DueMessage
    again: bool
    pause: float


@dataclass(frozen=True, slots=True)
class Postponed:
    """Not now: try again after so many seconds. The next of its like follows after ``pause`` seconds."""

    due: DueMessage
    error: str
    seconds: float
    pause: float = 0.0
    ambiguous: bool = False
    """Slack may have taken it, so it is looked for before it is sent again; otherwise it has not."""
    refused: bool = False
    """Slack answered with a refusal, so it is given up when it and the deadline of its request are a day old."""


Outcome = Sent | Dead | Gone | Postponed
"""What became of a message."""
