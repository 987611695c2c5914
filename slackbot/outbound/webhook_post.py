"""Webhooks: one signed POST, to an address that was looked at before anything is sent there."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from ipaddress import ip_address
from typing import Any

import httpx2

from agent.domain.outbound import OutboundMessage, Webhook
from agent.domain.webhook_urls import Address, Network, check_address, check_url
from signoff.retry_after import retry_after
from slackbot.outbound.failures import RetryLater, Undeliverable

TIMEOUT = 10.0
"""Seconds for one attempt, the look-up of the name included."""


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """What `Signoff-Signature` says: `v1=` and the HMAC-SHA-256 over `<timestamp>.<body>`, in hex."""
    signed = f"{timestamp}.".encode() + body
    return f"v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


@cache
def _certificates() -> ssl.SSLContext:
    """The certificates that the system trusts, loaded once per process."""
    return httpx2.create_ssl_context(trust_env=False)


class WebhookPoster:
    """Posts notices. `allowed` are networks that are barred for webhooks otherwise."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = allowed
        # A proxy from the environment would look the name up again, and could lead elsewhere than what was checked.
        # No connection is kept: one is known by its address alone, so another name that leads there would be posted to
        # whoever had shown a certificate for the first.
        self._client = httpx2.AsyncClient(
            timeout=TIMEOUT,
            follow_redirects=False,
            trust_env=False,
            verify=_certificates(),
            limits=httpx2.Limits(max_keepalive_connections=0),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def post(self, notice: OutboundMessage, webhook: Webhook, content: Mapping[str, Any]) -> None:
        """Deliver this. Raises RetryLater, or Undeliverable when the receiver is gone (410)."""
        try:
            async with asyncio.timeout(TIMEOUT):
                status, asked = await self._post(notice, webhook, content)
        except TimeoutError:
            raise RetryLater(f"did not answer within {TIMEOUT:.0f} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
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
        """The status that it answers, and its Retry-After; nothing else of the answer is read."""
        url = httpx2.URL(webhook.url)
        address = await self._address(url)
        body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        timestamp = int(datetime.now(UTC).timestamp())
        headers = {
            "Host": url.netloc.decode(),
            "Content-Type": "application/json",
            "User-Agent": "Signoff",
            "Signoff-Event": notice.event.value,
            "Signoff-Delivery": str(notice.id),
            "Signoff-Timestamp": str(timestamp),
            "Signoff-Signature": signature(webhook.secret, timestamp, body),
        }
        async with self._client.stream(
            "POST",
            url.copy_with(host=str(address)),
            content=body,
            headers=headers,
            extensions={"sni_hostname": url.host},
        ) as answer:
            return answer.status_code, answer.headers.get("Retry-After")

    async def _address(self, url: httpx2.URL) -> Address:
        """Where the name leads now; we connect to just this address. Raises ValueError when it may not be reached."""
        check_url(str(url), self._allowed)
        encrypted = url.scheme == "https"
        port = url.port or (443 if encrypted else 80)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        addresses = [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        for address in addresses:
            check_address(address, self._allowed, encrypted=encrypted)
        # Of a name with both kinds the older one: a machine without a way into the newer net is the commoner case.
        return min(addresses, key=lambda address: address.version)
