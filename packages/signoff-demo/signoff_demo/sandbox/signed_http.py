"""HTTP deliveries to the app's request URL, signed like Slack's.

Source: Slack, "Verifying requests from Slack": HMAC-SHA256 over `v0:{timestamp}:{body}`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp

from signoff_demo.sandbox.delivery_report import TIMED_OUT, DeliveryReport
from signoff_demo.sandbox.refusal import Json


@dataclass(frozen=True)
class SignedRequest:
    """Tests can resend it, or a modified copy."""

    url: str
    body: bytes
    headers: dict[str, str]


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The value of `X-Slack-Signature`."""
    base = b"v0:" + timestamp.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()


class SignedHttp:
    """A client of the app's request URL that signs each payload as Slack does and reports the answer."""

    def __init__(self, url: str | None, secret: str) -> None:
        self.url = url
        self._secret = secret
        self._session: aiohttp.ClientSession | None = None

    def interactive(self, payload: Json) -> SignedRequest:
        """A form with the single field `payload`."""
        return self.sign(urlencode({"payload": json.dumps(payload)}).encode())

    def command(self, form: Json) -> SignedRequest:
        return self.sign(urlencode(form).encode())

    def event(self, payload: Json, **headers: str) -> SignedRequest:
        return self.sign(json.dumps(payload).encode(), "application/json", None, **headers)

    def sign(
        self,
        body: bytes,
        content_type: str = "application/x-www-form-urlencoded",
        timestamp: int | None = None,
        **headers: str,
    ) -> SignedRequest:
        """Default time: now, in seconds since 1970."""
        at = str(int(time.time()) if timestamp is None else timestamp)
        return SignedRequest(
            self.url or "",
            body,
            {
                "Content-Type": content_type,
                "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
                "X-Slack-Request-Timestamp": at,
                "X-Slack-Signature": signature(self._secret, at, body),
                **headers,
            },
        )

    async def send(self, request: SignedRequest, seconds: float) -> DeliveryReport:
        """Only HTTP 200 within `seconds` acknowledges the request."""
        began = time.monotonic()
        try:
            async with self._http().post(
                request.url,
                data=request.body,
                headers=request.headers,
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
            ) as response:
                payload = _decoded(response.content_type, await response.text())
                elapsed = time.monotonic() - began
                if response.status == 200:
                    return DeliveryReport(True, elapsed, 200, payload)
                error = f"{TIMED_OUT}: the app answered {response.status}"
                return DeliveryReport(False, elapsed, response.status, payload, error)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return DeliveryReport(False, time.monotonic() - began, error=TIMED_OUT)

    async def verify_url(self, seconds: float = 3.0) -> bool:
        """Slack's `url_verification` handshake, made when a request URL is configured."""
        challenge = hashlib.sha256(str(time.time_ns()).encode()).hexdigest()
        asked = {"type": "url_verification", "token": "sandbox-verification", "challenge": challenge}
        answer = await self.send(self.event(asked), seconds)
        given = answer.payload.get("challenge") if isinstance(answer.payload, dict) else answer.payload
        return answer.acked and given == challenge

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session


def _decoded(content_type: str, text: str) -> Any:
    if not text:
        return None
    if content_type == "application/json":
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text
