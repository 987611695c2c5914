"""The client for every call to Slack: masks, honours Retry-After, sends nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from slack_sdk.webhook.async_client import AsyncWebhookClient

from signoff.errors import SignoffError
from signoff.masks import mask
from signoff.retry_after import retry_after
from slackbot.masking.slack_payloads import clean_payload
from slackbot.masking.views import off_the_loop
from slackbot.slack_api.error_codes import Meaning, meaning_of

TIMEOUT = 5
"""Seconds for one call; with masking still less than `agent.usecases.deliveries.LEASE_SECONDS`."""

DEFAULT_PAUSE = 30.0
"""Seconds after a 429 without Retry-After."""

MAX_CODE = 80
"""Characters of an error code, which people see. Slack's have 40 at most; another server may answer instead."""

_SHOWN = (
    "chat.",
    "views.",
    "files.",
    "reactions.",
    "bookmarks.",
    "pins.",
    "canvases.",
    "conversations.set",
)
"""Methods whose arguments people see."""

_BODIES = ("json", "params", "data")


class SlackError(SignoffError):
    """`seconds` to wait, `status` of the response, `taken`: Slack may have executed it."""

    meaning = Meaning.PASSING

    def __init__(self, words: str, *, seconds: float = 0.0, status: int = 0, taken: bool = False) -> None:
        super().__init__(words)
        self.reason = words
        self.seconds = seconds
        self.status = status
        self.taken = taken


class RateLimited(SlackError):
    """Slack asked to wait `seconds`, now or earlier: then no call was made."""

    meaning = Meaning.SLOW_DOWN


class SlackUnavailable(SlackError):
    """Slack gave no usable response."""


class SlackRefused(SlackError):
    """An answer of Slack with an error code; `meaning` says what the code means for a message."""

    def __init__(self, method: str, code: str, *, needed: object = None, status: int = 0) -> None:
        reason = f"{code} (it needs {needed})" if needed else code
        super().__init__(f"{method}: Slack refuses: {reason}", status=status)
        self.reason = reason
        self.code = code
        self.meaning = meaning_of(code, method)


class SlackClient(AsyncWebClient):
    """Raises RateLimited, SlackUnavailable or SlackRefused. A 429 pauses its method (a post: its channel)."""

    def __init__(self, token: str, api_url: str, *, clock: Callable[[], float] = monotonic) -> None:
        super().__init__(token=token, base_url=api_url, timeout=TIMEOUT, retry_handlers=[])
        self._clock = clock
        self._blocked_until: dict[tuple[str, ...], float] = {}

    def keep_connections(self) -> None:
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT))

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()

    async def api_call(self, api_method: str, **options: Any) -> AsyncSlackResponse:
        bodies = {name: each for name, each in options.items() if name in _BODIES and isinstance(each, dict)}
        posts_in = [str(body.get("channel")) for body in bodies.values() if api_method == "chat.postMessage"]
        key = (api_method, *posts_in)
        if (silent := self._blocked_until.get(key, 0.0) - self._clock()) > 0:
            raise RateLimited(f"{api_method}: Slack asked to slow down", seconds=silent)
        if api_method.startswith(_SHOWN):
            options |= {name: await clean_payload(body) for name, body in bodies.items()}
        try:
            with translated(api_method, self.base_url):
                async with asyncio.timeout(TIMEOUT):
                    answer = await super().api_call(api_method, **options)
        except RateLimited as error:
            self._blocked_until[key] = self._clock() + error.seconds
            raise
        if not isinstance(answer.data, dict):
            raise SlackUnavailable(f"{api_method}: an invalid response", taken=True)
        return answer

    async def respond(self, response_url: str, **message: Any) -> None:
        """Post to a `response_url`, which works 5 times within 30 minutes."""
        webhook = AsyncWebhookClient(response_url, TIMEOUT, session=self.session, retry_handlers=[])
        with translated("response_url", "its address"):
            async with asyncio.timeout(TIMEOUT):
                answer = await webhook.send_dict(await clean_payload(message))
        if answer.status_code != 200:
            raise _failure("response_url", answer)

    async def files_upload_v2(self, **options: Any) -> AsyncSlackResponse:
        """Uploads text (`content`) only: other content could not be masked. Raises ValueError."""
        content = options.get("content")
        if options.get("file") is not None or options.get("file_uploads") is not None:
            raise ValueError("give the content of a file as text")
        if isinstance(content, bytes):
            content = content.decode()
        if isinstance(content, str):
            options["content"] = await off_the_loop(lambda find: mask(content, find(content)))
        with translated("files.upload", self.base_url):
            return await super().files_upload_v2(**options)


@contextmanager
def translated(method: str, address: str) -> Iterator[None]:
    """Turn errors of Slack's library and of the network into SlackError, which names method and address."""
    try:
        yield
    except SlackApiError as error:
        raise _failure(method, error.response) from None
    # AttributeError: the library takes every body for a JSON object.
    except (TimeoutError, aiohttp.ClientError, OSError, SlackClientError, AttributeError) as error:
        words = f"{method}: cannot reach {address}: {type(error).__name__}"
        raise SlackUnavailable(words, taken=True) from None


def _failure(method: str, answer: Any) -> SlackError:
    """``answer`` is the HTTP library's if the body could not be read."""
    data = getattr(answer, "data", None)
    data = data if isinstance(data, dict) else {}
    code = str(data.get("error") or "")[:MAX_CODE]
    status = int(getattr(answer, "status_code", 0) or getattr(answer, "status", 0) or 0)
    asked = retry_after(answer.headers.get("Retry-After"), datetime.now(UTC))
    refused = SlackRefused(method, code, needed=data.get("needed"), status=status)
    if status == 429 or refused.meaning is Meaning.SLOW_DOWN:
        seconds = DEFAULT_PAUSE if asked is None else max(1.0, asked)
        return RateLimited(f"{method}: Slack asks to slow down", seconds=seconds, status=status)
    if status >= 500 or not code or refused.meaning is Meaning.PASSING:
        words = f"{method}: Slack answers {code or status}"
        return SlackUnavailable(words, seconds=asked or 0.0, status=status, taken=True)
    return refused
