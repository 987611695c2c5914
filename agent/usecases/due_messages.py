"""A due message for Slack, and each outcome that sending it can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from agent.store.outbox import Destination


@dataclass(frozen=True, slots=True)
class DueMessage:
    """Lines for one thread go out together (``bodies``)."""

    destination: Destination
    epoch: int  # of the lease
    ids: tuple[UUID, ...]
    kind: str
    request_id: UUID | None
    run_id: UUID | None
    agent: str | None  # of a digest: an agent or `key:NAME`, or its group
    turn: str
    bodies: tuple[Mapping[str, object], ...]
    wanted: int
    attempts: int
    error: str | None  # of the previous attempt
    ambiguous: bool  # perhaps accepted earlier
    since: float  # epoch seconds at which Slack could first have it
    thread_ts: str | None  # for lines
    ts: str | None  # to update, for cards and roots
    unseen: bool = False  # the first post of a card whose request expired
    in_group: bool = False  # a line for the thread of a group's message

    @property
    def newer_digest(self) -> str | None:
        newer = self.bodies[0].get("digest") if self.kind == "digest" else None
        return str(newer) if newer else None

    @property
    def id(self) -> UUID:
        """The message's metadata carries the first delivery's id."""
        return self.ids[0]


@dataclass(frozen=True, slots=True)
class Sent:
    """Posted as ``ts``. ``pause``: seconds until the next of this kind."""

    due: DueMessage
    ts: str | None
    pause: float
    unseen: tuple[UUID, ...] = ()
    """The requests of which this message tells in place of their cards."""


@dataclass(frozen=True, slots=True)
class Unreached:
    """The channel cannot be reached, so ``admin`` is told which requests expired unseen there."""

    due: DueMessage
    pause: float
    why: str
    admin: Destination


@dataclass(frozen=True, slots=True)
class Dead:
    """Rejected in every form: kept with the reason; ``admin`` is notified."""

    due: DueMessage
    error: str
    pause: float
    admin: Destination | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """The message was deleted: post it ``again``, or drop it."""

    due: DueMessage
    again: bool
    pause: float


@dataclass(frozen=True, slots=True)
class Closed:
    """Slack lets this card be changed no more, and nobody needs a new one: its thread gets the outcome."""

    due: DueMessage
    pause: float


@dataclass(frozen=True, slots=True)
class Postponed:
    """``pause``: seconds until the next of this kind."""

    due: DueMessage
    error: str
    seconds: float
    pause: float = 0.0
    ambiguous: bool = False
    """Slack may have it: look for it before sending again."""
    refused: bool = False
    """Give up when the message and its request's deadline are a day old."""


Outcome = Sent | Unreached | Dead | Gone | Closed | Postponed
