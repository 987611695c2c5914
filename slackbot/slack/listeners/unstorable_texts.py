"""Refuse texts that cannot be stored. `messages` calls `objection` itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.response import BoltResponse

from signoff.storable_text import unstorable
from slackbot.cards import refusal_text
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.modals import tell


def objection(text: str) -> str | None:
    problem = unstorable(text)
    return (
        problem and f"This text {problem}, which cannot be stored. Please remove it and send the text again."
    )


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    @app.middleware
    async def storable(
        body: dict[str, Any],
        ack: AsyncAck,
        next_: Callable[[], Awaitable[BoltResponse]],
    ) -> BoltResponse:
        if errors := _errors_of_form(body):
            return await ack(response_action="errors", errors=errors)
        if problem := _first_objection([body.get("text"), body.get("actions")]):
            if "command" in body:
                return await ack(text=refusal_text(problem), response_type="ephemeral")
            tell(ctx, body, problem)
            return await ack()
        return await next_()


def _errors_of_form(body: Mapping[str, Any]) -> dict[str, str]:
    """Problems by block_id."""
    if body.get("type") != "view_submission":
        return {}
    values: dict[str, Any] = body["view"]["state"].get("values") or {}
    return {block: problem for block, state in values.items() if (problem := _first_objection(state))}


def _first_objection(value: Any) -> str | None:
    left = [value]
    while left:
        match left.pop():
            case str() as text:
                if problem := objection(text):
                    return problem
            case dict() as members:
                left += members.values()
            case list() as items:
                left += items
    return None
