"""A run's full answer, in a modal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from slack_bolt.async_app import AsyncAck, AsyncApp

from agent.store import views
from signoff.values import Person
from slackbot.cards import (
    ACTION_ANSWER,
    PAGE_OF_ANSWER,
    answer_modal,
    notice_modal,
    parse_id,
    parse_page_value,
    skeleton_modal,
)
from slackbot.masking import clean_text, hidden_in_run
from slackbot.reviewing.members import check_member
from slackbot.reviewing.visibility import visible_runs
from slackbot.slack.listeners.buttons import person_of
from slackbot.slack.listeners.catch_all import OLD_BUTTON
from slackbot.slack.listeners.context import ListenerContext
from slackbot.slack.listeners.modals import Shown, Then, fill, show, tell

HEADING = "The agent's answer"
NOT_OPENED = "Slack did not open the answer in time. Please press the button again."
NOT_VISIBLE = "There is no such answer that you may see."


def register(app: AsyncApp, ctx: ListenerContext) -> None:
    """Register the button that shows a run's whole answer in a modal."""

    @app.action(ACTION_ANSWER)
    async def asked(ack: AsyncAck, body: dict[str, Any]) -> None:
        what, query = parse_page_value(body["actions"][0].get("value")) or ("", {})
        draw = drawing(ctx, body, query) if what == PAGE_OF_ANSWER else None
        refusal = await show(ctx, body, skeleton_modal(HEADING), NOT_OPENED, draw) if draw else OLD_BUTTON
        await ack()
        if refusal:
            tell(ctx, body, refusal)


def drawing(ctx: ListenerContext, body: Mapping[str, Any], query: Mapping[str, str]) -> Then | None:
    """Draws the answer into a modal. None: the query belongs to another list."""
    run_id, turn, page = parse_id(query.get("run")), query.get("turn", ""), query.get("page", "")
    if run_id is None or not turn.isdecimal() or not page.isdecimal():
        return None
    person, number, part = person_of(body), int(turn[:9]), int(page[:6])
    return lambda view_id: fill(ctx, view_id, HEADING, _answer(ctx, person, run_id, number, part))


async def _answer(ctx: ListenerContext, person: Person, run_id: UUID, turn: int, page: int) -> Shown:
    """Raises Refused for people who may not see the run."""
    await check_member(ctx.directory, person)
    async with ctx.db.connection() as connection:
        found = await views.run_and_values(connection, run_id)
        messages = await views.messages(connection, run_id)
    text = next((each.text for each in messages if (each.role, each.turn) == ("assistant", turn)), None)
    if text is None or found is None or not await visible_runs(ctx.directory, person, [found[0]]):
        return notice_modal(HEADING, NOT_VISIBLE)
    _, values = found
    return answer_modal(run_id, turn, await clean_text(text, hidden_in_run(values)), page)
