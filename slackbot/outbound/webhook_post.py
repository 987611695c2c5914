"""A notice is posted to its webhook, signed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx2

from agent.domain.outbound import OutboundMessage, Webhook
from agent.domain.webhook_urls import Network
from signoff.retry_after import retry_after
from slackbot.outbound.failures import RetryLater, Undeliverable
from slackbot.outbound.signed_post import FAILURES, SignedPoster

TIMEOUT = 10.0
"""Seconds for one attempt, including name resolution."""


class WebhookPoster:
    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._poster = SignedPoster(allowed, seconds=TIMEOUT)

    async def close(self) -> None:
        await self._poster.close()

    async def post(self, notice: OutboundMessage, webhook: Webhook, content: Mapping[str, Any]) -> None:
        """Raises RetryLater, or Undeliverable if the receiver is gone (410)."""
        try:
            async with asyncio.timeout(TIMEOUT):
                status, asked = await self._post(notice, webhook, content)
        except TimeoutError:
            raise RetryLater(f"did not answer within {TIMEOUT:.0f} s") from None
        except FAILURES as error:
            raise RetryLater(str(error) or type(error).__name__) from error
        if status == httpx2.codes.GONE:
            raise Undeliverable("answered 410: it is gone for good")
        if 300 <= status < 400:
            raise RetryLater(f"answered {status}; redirects are not followed")
        if not 200 <= status < 300:
            raise RetryLater(f"answered {status}", retry_after(asked, datetime.now(UTC)))

    async def _post(
        self, notice: OutboundMessage, webhook: Webhook, content: Mapping[str, Any]
    ) -> tuple[int, str | None]:
        body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"Signoff-Event": notice.event.value, "Signoff-Delivery": str(notice.id)}
        async with self._poster.post(webhook.url, webhook.secret, body, headers) as answer:
            return answer.status_code, answer.headers.get("Retry-After")
