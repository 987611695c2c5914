"""The Bolt application of one workspace, whose identity is already known."""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.context.ack.async_ack import AsyncAck
from slack_bolt.context.async_context import AsyncBoltContext
from slack_bolt.logger.messages import warning_client_prioritized_and_token_skipped
from slack_bolt.response import BoltResponse

from agent.database.errors import DatabaseError
from agent.database.failure_log import log_failure
from signoff.errors import SignoffError
from slackbot.masking import clean_error
from slackbot.masking.slack_payloads import clean_payload
from slackbot.slack.metrics import EVENTS_WITHHELD
from slackbot.slack_api.client import SlackClient

log = logging.getLogger(__name__)


class CleanAck(AsyncAck):
    """An acknowledgement to Slack that masks the secrets in whatever it answers."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    async def __call__(self, *args: Any, **options: Any) -> BoltResponse:
        return await super().__call__(
            *[await clean_payload(each) for each in args], **await clean_payload(options)
        )


def new_app(client: SlackClient, *, team_id: str, bot_user_id: str, bot_id: str) -> AsyncApp:
    """An application for one workspace, for both modes. The ids come from `auth.test`.

    * `process_before_response`: a listener ends before Slack is answered, so an exception becomes a 500 (no
      acknowledgement over a socket), for events too, which Bolt would otherwise acknowledge first; Slack then sends the
      event again. It also saves 10 ms of Bolt's polling for the acknowledgement.
    * A given authorization: Bolt would call `auth.test` during the first click, and answer 200 if that fails.
    * Our own events are not ignored: a deleted card of ours is one.
    * No request verification: `slackbot.slack.signed_http` does it in front of Bolt, and a socket has none.
    """
    token = client.token
    result = AuthorizeResult(
        enterprise_id=None, team_id=team_id, bot_user_id=bot_user_id, bot_id=bot_id, bot_token=token
    )

    async def authorize() -> AuthorizeResult:
        return result

    bare = copy.copy(client)
    bare.token = None  # a client with a token would outrank `authorize`
    app = AsyncApp(
        name="signoff",
        logger=_log(),
        client=bare,
        authorize=authorize,
        signing_secret="",
        request_verification_enabled=False,
        ssl_check_enabled=False,
        ignoring_self_events_enabled=False,
        process_before_response=True,
    )
    app.error(_on_error)
    app.middleware(_count_withheld_events)
    app.middleware(_answer_cleanly)
    return app


async def _count_withheld_events(
    body: dict[str, object], next_: Callable[[], Awaitable[BoltResponse]]
) -> BoltResponse | None:
    """Handle `app_rate_limited`, which has no event for a listener."""
    if body.get("type") != "app_rate_limited":
        await next_()
        return None
    EVENTS_WITHHELD.inc()
    log.warning(
        "Slack withholds events: too many were sent, or too many were not answered",
        extra={"action": "events_withheld", "minute": body.get("minute_rate_limited")},
    )
    return BoltResponse(status=200, body="")


async def _answer_cleanly(context: AsyncBoltContext, next_: Callable[[], Awaitable[BoltResponse]]) -> None:
    context["ack"] = CleanAck()
    await next_()


async def _on_error(error: Exception) -> None:
    """Deliberate errors need no traceback."""
    if isinstance(error, DatabaseError):
        log_failure("a listener failed", error, action="listener_failed")
        return
    expected = isinstance(error, SignoffError | TimeoutError)
    log.error(
        "a listener failed: %s",
        clean_error(error) if isinstance(error, SignoffError) else type(error).__name__,
        exc_info=None if expected else error,
        extra={"action": "listener_failed"},
    )


def _log() -> logging.Logger:
    """Drop Bolt's warning about SLACK_BOT_TOKEN, which `authorize` uses."""
    log = logging.getLogger("slackbot.bolt")
    log.addFilter(_is_relevant)
    return log


def _is_relevant(record: logging.LogRecord) -> bool:
    return record.getMessage() != warning_client_prioritized_and_token_skipped()
