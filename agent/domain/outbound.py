"""Outbound notices: webhooks for programs, e-mail for people whom policy names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class OutboundEvent(StrEnum):
    """What a webhook can be told of."""

    REQUEST_OPENED = "request.opened"
    DECISION_MADE = "decision.made"
    RUN_FINISHED = "run.finished"


MAIL = "mail"
"""The one target that is no webhook."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where notices go, and what they are signed with."""

    id: UUID
    name: str
    url: str
    secret: str


@dataclass(frozen=True, slots=True)
class WebhookLine:
    """A webhook as it is listed, without its secret."""

    name: str
    url: str
    events: tuple[OutboundEvent, ...]
    created_by: str
    created_at: datetime
    pending: int  # notices that are still to be delivered
    dead: int  # notices that were given up
    last_sent_at: datetime | None


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """One thing to be told to one target, taken for sending. ``attempts`` counts this one."""

    id: UUID
    event: OutboundEvent
    webhook: Webhook | None
    recipient: str | None
    request_id: UUID | None
    run_id: UUID | None
    attempts: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A notice that was given up; ``target`` is the webhook's name or the address."""

    id: UUID
    target: str
    event: OutboundEvent
    request_id: UUID | None
    run_id: UUID | None
    attempts: int
    error: str | None
    created_at: datetime
