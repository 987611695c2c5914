"""Webhooks notify programs; e-mail notifies people whom policy names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class OutboundEvent(StrEnum):
    """Events that a webhook can receive."""

    REQUEST_OPENED = "request.opened"
    DECISION_MADE = "decision.made"
    RUN_FINISHED = "run.finished"


MAIL = "mail"
"""The only target that is no webhook."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook's address, with the secret, in clear, that signs each notice sent there."""

    id: UUID
    name: str
    url: str
    secret: str


@dataclass(frozen=True, slots=True)
class WebhookLine:
    """A webhook as operators list it, with the numbers of its pending and its given-up notices."""

    name: str
    url: str
    events: tuple[OutboundEvent, ...]
    created_by: str
    created_at: datetime
    pending: int
    dead: int
    last_sent_at: datetime | None


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """``attempts`` includes this one."""

    id: UUID
    event: OutboundEvent
    webhook: Webhook | None
    recipient: str | None
    request_id: UUID | None
    run_id: UUID | None
    attempts: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DeadNotice:
    """``target``: the webhook's name or e-mail address."""

    id: UUID
    target: str
    event: OutboundEvent
    request_id: UUID | None
    run_id: UUID | None
    attempts: int
    error: str | None
    created_at: datetime
