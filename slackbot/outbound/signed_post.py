"""Signed POSTs to checked addresses: no redirects, no proxy."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache, cached_property
from ipaddress import ip_address
from typing import Any

import httpx2

from agent.domain.outbound import OutboundMessage, Webhook
from agent.domain.webhook_urls import Address, Network, check_address, check_url
from signoff.retry_after import retry_after
from slackbot.outbound.failures import RetryLater, Undeliverable

FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError)

TIMEOUT = 10.0
"""Seconds for one attempt, including name resolution."""


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """The value of `Signoff-Signature`: `v1=` and the HMAC-SHA-256 over `<timestamp>.<body>`, in hex."""
    signed = f"{timestamp}.".encode() + body
    return f"v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


@cache
def _certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)


class SignedPoster:
    """`allowed`: networks that are refused otherwise."""

    def __init__(self, allowed: Sequence[Network], *, seconds: float) -> None:
        self._allowed = allowed
        self._seconds = seconds

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        """Made by the first post: most processes send none, and certificates and transport take 4 MB."""
        # A proxy from the environment would resolve the name again, perhaps to an unchecked address.
        # Connections are not kept: they are matched by address alone, so another name with that address would
        # reuse one whose certificate is for the first name.
        return httpx2.AsyncClient(
            timeout=self._seconds,
            follow_redirects=False,
            trust_env=False,
            verify=_certificates(),
            limits=httpx2.Limits(max_keepalive_connections=0),
        )

    async def close(self) -> None:
        if "_client" in vars(self):
            await self._client.aclose()

    @asynccontextmanager
    async def post(
        self, where: str, secret: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx2.Response]:
        """Only the response's head is read. Raises one of `FAILURES`."""
        url = httpx2.URL(where)
        address = await self._address(url)
        timestamp = int(datetime.now(UTC).timestamp())
        sent = {
            "Host": url.netloc.decode(),
            "Content-Type": "application/json",
            "User-Agent": "Signoff",
            "Signoff-Timestamp": str(timestamp),
            "Signoff-Signature": signature(secret, timestamp, body),
        }
        async with self._client.stream(
            "POST",
            url.copy_with(host=str(address)),
            content=body,
            headers={**sent, **headers},
            extensions={"sni_hostname": url.host},
        ) as answer:
            yield answer

    async def _address(self, url: httpx2.URL) -> Address:
        """The only address to connect to. Raises ValueError if it is refused."""
        check_url(str(url), self._allowed)
        encrypted = url.scheme == "https"
        port = url.port or (443 if encrypted else 80)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        addresses = [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        for address in addresses:
            check_address(address, self._allowed, encrypted=encrypted)
        # Prefer IPv4: machines without IPv6 access are more common.
        return min(addresses, key=lambda address: address.version)


class WebhookPoster:
    """A sender of webhooks: signs each body, limits the time for an answer, and follows no redirect."""

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
