"""What every click, form and command passes first: its person's workspace, and texts that can be stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.response import BoltResponse

from agent.domain.errors import DOUBTFUL, sentence
from signoff.storable_text import unstorable
from signoff.values import Person
from slackbot.cards import notice_modal, refusal_text
from slackbot.slack.listeners.context import ARRIVED, ListenerContext
from slackbot.slack.listeners.modals import NOT_RECORDED, on_last_input, tell


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register the checks that precede all listeners: who acts, and whether the texts can be stored."""

    @app.middleware
    async def under_our_workspace(
        body: dict[str, Any], ack: AsyncAck, next_: Callable[[], Awaitable[BoltResponse]]
    ) -> BoltResponse:
        """In an Enterprise Grid, Slack names people by the workspace that they call home, and Signoff by its own.

        Most events are other people's messages: listeners ask for those they use.
        """
        ARRIVED.set(monotonic())
        if (acting := _acting(body)) is None:
            return await next_()
        said, user_id = acting
        member = await ctx.directory.member(Person(str(said.get("team_id") or ""), user_id))
        if member.refusal in DOUBTFUL:
            return await _refuse(ctx, ack, body, sentence(member.refusal))
        said["team_id"] = member.person.team_id
        return await next_()

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


def _acting(body: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
    """Where the payload has `team_id`, and the person's id."""
    if "command" in body:
        return body, str(body["user_id"])
    user = body.get("user")
    return (user, str(user["id"])) if isinstance(user, dict) and "id" in user else None


async def _refuse(ctx: ListenerContext, ack: AsyncAck, body: dict[str, Any], problem: str) -> BoltResponse:
    """Without a record: until Slack confirms the person, it is not known whose act it would be."""
    if "command" in body:
        return await ack(text=refusal_text(problem), response_type="ephemeral")
    if body.get("type") == "view_submission":
        if errors := on_last_input(body["view"], problem):
            return await ack(response_action="errors", errors=errors)
        return await ack(response_action="update", view=notice_modal(NOT_RECORDED, problem))
    if body.get("type") == "block_actions":
        tell(ctx, body, problem)
    return await ack()


def objection(text: str) -> str | None:
    """Why the text cannot be stored. Messages are events, so their listeners ask themselves."""
    problem = unstorable(text)
    return (
        problem and f"This text {problem}, which cannot be stored. Please remove it and send the text again."
    )


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
