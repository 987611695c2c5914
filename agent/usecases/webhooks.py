"""The secret is shown once, but stored in clear, because it signs what is sent."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit
from uuid import UUID

from agent.database.pools import Database
from agent.database.wakeups import Wakeup
from agent.domain.audit import AuditKind
from agent.domain.errors import NotFound
from agent.domain.outbound import DeadNotice, OutboundEvent, Webhook, WebhookLine
from agent.domain.webhook_urls import Network, check_url
from agent.store import audit, outbound
from agent.store.audit import AuditEntry
from agent.store.ids import new_id
from signoff.errors import Conflict, SignoffError

START = "whsec_"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class WebhookRejected(SignoffError):
    """The message says why."""


async def add(
    db: Database,
    name: str,
    url: str,
    events: Collection[OutboundEvent] = tuple(OutboundEvent),
    *,
    by: str,
    allowed: Sequence[Network] = (),
) -> str:
    """Return the new secret. ``allowed`` networks are reachable. Raises WebhookRejected and Conflict."""
    _check(name, url, events, allowed)
    webhook = Webhook(new_id(), name, url, START + secrets.token_urlsafe(32))
    async with db.transaction() as tx:
        subject = _subject(name)
        await audit.create_head(tx, subject)
        head = await audit.lock_head(tx, subject)
        if await outbound.lock(tx, name) is not None:
            raise Conflict(f"there is a webhook named {name} already")
        outbound.insert(tx, webhook, events, by, head.at)
        detail = {"webhook": str(webhook.id), "host": urlsplit(url).hostname, "events": sorted(events)}
        audit.append(tx, head, AuditEntry(AuditKind.WEBHOOK_ADDED, by, detail))
    return webhook.secret


async def remove(db: Database, name: str, *, by: str) -> None:
    """Remove a webhook with its pending notices. Raises NotFound."""
    async with db.transaction() as tx:
        head = await audit.lock_head(tx, _subject(name))  # first, as when one is added
        webhook_id = await outbound.lock(tx, name)
        if webhook_id is None:
            raise NotFound(f"there is no webhook named {name}")
        outbound.remove(tx, webhook_id, head.at)
        audit.append(tx, head, AuditEntry(AuditKind.WEBHOOK_REMOVED, by, {"webhook": str(webhook_id)}))


async def list_webhooks(db: Database) -> list[WebhookLine]:
    """Return the webhooks in use, by name, with the numbers of their pending and given-up notices."""
    return await db.read(outbound.list_webhooks)


async def list_dead(db: Database, limit: int = 50, after: UUID | None = None) -> list[DeadNotice]:
    """Notices, latest first; ``after`` is the last one seen."""
    return await db.read(outbound.list_dead, limit, after)


async def replay(db: Database, notice_id: UUID | None = None) -> int:
    """Retry one notice, or all. Raises NotFound if it was not given up."""
    async with db.transaction() as tx:
        targets = await outbound.revive(tx, notice_id)
        if notice_id is not None and not targets:
            raise NotFound(f"no notice {notice_id} was given up")
        tx.wake(*(Wakeup.notices(target) for target in targets))
    return len(targets)


async def drop(db: Database, notice_id: UUID | None = None) -> int:
    """Send one notice, or all, no more. Raises NotFound if it was not given up."""
    async with db.transaction() as tx:
        number = await outbound.drop(tx, notice_id)
        if notice_id is not None and not number:
            raise NotFound(f"no notice {notice_id} was given up")
    return number


def _check(name: str, url: str, events: Collection[OutboundEvent], allowed: Sequence[Network]) -> None:
    if not _NAME.match(name):
        raise WebhookRejected("a webhook's name has up to 64 letters, digits, dots, dashes and underscores")
    if not events:
        raise WebhookRejected(f"name at least one event of {', '.join(OutboundEvent)}")
    try:
        check_url(url, allowed)
    except ValueError as error:
        raise WebhookRejected(f"a webhook's address {error}") from None


def _subject(name: str) -> str:
    return f"webhook:{name}"
