"""A due message is drawn from the facts of this moment, with secrets masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from agent.database.pools import Database
from agent.domain.errors import DOUBTFUL
from agent.domain.groups import is_group
from agent.domain.masked_action import MaskedAction
from agent.domain.request_view import RequestView
from agent.domain.run import RunValues, RunView
from agent.store import views
from agent.usecases.due_messages import DueMessage
from agent.usecases.undelivered import MAX_NAMED
from signoff.values import Person
from slackbot import cards, masking
from slackbot.cards import Card
from slackbot.cards.group_digest import GroupDigest, group_digest_card, titled_line
from slackbot.delivery.reviewer_check import ReviewerCheck
from slackbot.slack_api.client import SlackUnavailable
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.permalinks import Permalinks

MAX_POSTPONEMENTS = 3
"""Postponements of a card while the machine is too busy to scan it for secrets; then it is masked."""

_PLAIN = frozenset({"line", "team", "user", "at", "people"})
"""Fields without free text."""


class MessageDrawing:
    """A renderer of due messages: makes each a card from the facts of this moment, with secrets masked."""

    def __init__(
        self,
        db: Database,
        directory: Directory,
        permalinks: Permalinks,
        reviewers: ReviewerCheck,
        inbox: str | None = None,
        *,
        tell_requester: bool = True,
    ) -> None:
        """``inbox``: its address in the browser."""
        self._tell_requester = tell_requester
        self._db = db
        self._directory = directory
        self._permalinks = permalinks
        self._reviewers = reviewers
        self._inbox = inbox
        self._page = f"{inbox}/history?status=expired" if inbox else None

    async def draw(self, due: DueMessage, *, posted: bool) -> Card | None:
        """``None``: nothing is left to show. ``posted``: it changes a message."""
        with masking.work_for(masking.CARDS):
            return await self._draw(due, posted)

    async def _draw(self, due: DueMessage, posted: bool) -> Card | None:
        if due.kind == "card" and due.request_id:
            return await self._draw_request(due, due.request_id)
        if due.agent is not None:
            return await self._draw_digest(due, due.agent, posted)
        if due.kind == "run_root" and due.run_id:
            return await self._draw_root(due, due.run_id)
        if due.bodies[0].get("line") == "unseen":
            return await self._draw_unseen_elsewhere(due, due.bodies[0])
        if due.bodies[0].get("line") == "week":
            (body,) = await masking.clean_bodies(due.bodies[:1])
            return cards.week_card(body, inbox=self._inbox, delivery_id=due.id)
        told = [await self._told(due, body) for body in due.bodies]
        run = await self._run_of(due, told)
        told = [{**body, **_ending(run and run[0], body)} for body in told]
        quotes = due.in_group or any(map(_quotes, told))
        view = await self._view(due.request_id) if quotes and due.request_id else None
        hidden = await _hidden(view, run)
        if due.kind == "direct" and told[0].get("of") is not None:
            return await self._draw_outcome(due, told[0], run and run[0], view, hidden)
        draw = (
            cards.thread_line if due.kind == "thread_line" else cards.run_line
        )  # also for words to operators
        bodies = cards.count_alike(await masking.clean_bodies(told, hidden))
        drawn = cards.combine_lines([draw(body, delivery_id=due.id) for body in bodies], delivery_id=due.id)
        return titled_line(drawn, await masking.clean_view(view)) if due.in_group and view else drawn

    async def _told(self, due: DueMessage, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """With ``people``: whoever asked for what has this outcome, if Slack confirms them now."""
        whom, rest = body.get("tell"), {name: value for name, value in body.items() if name != "tell"}
        if whom is None or not self._tell_requester:
            return rest
        refusal = (await self._directory.identify(Person(whom["team"], whom["user"]))).refusal
        if refusal in DOUBTFUL and due.attempts < MAX_POSTPONEMENTS:
            raise SlackUnavailable("Slack has not confirmed whom to tell")
        if refusal is not None:
            return rest
        return {**rest, "people": [whom["user"]]}

    async def _run_of(
        self, due: DueMessage, told: Sequence[Mapping[str, Any]]
    ) -> tuple[RunView, RunValues] | None:
        """The run and what to hide of it, in one read, if its lines need either."""
        if due.run_id is None or not any(_quotes(body) or body.get("line") == "answer" for body in told):
            return None
        return await self._db.read(views.run_and_values, due.run_id)

    async def _draw_outcome(
        self,
        due: DueMessage,
        body: Mapping[str, Any],
        run: RunView | None,
        view: RequestView | None,
        hidden: masking.Hidden,
    ) -> Card | None:
        """A thread's line as a direct message: of what, where, and the reason that the thread has above it."""
        if "people" not in body:
            return None
        async with self._db.connection() as connection:
            above = await views.thread_of(connection, due.run_id, due.request_id)
            reason = await views.last_rejection(connection, run.id) if run else None
        told = {**body, "reason": reason} if reason and body.get("line") == "answer" else body
        (clean,) = await masking.clean_bodies([{**told, "people": None}], hidden)
        draw = cards.thread_line if body["of"] == "thread_line" else cards.run_line
        if run is not None:
            about = await masking.clean_text(f"{run.chain}: {run.task}", hidden)
        else:
            about = (await masking.clean_view(view)).description if view else ""
        link = (await self._permalinks.of([above])).get(above) if above else None
        return cards.outcome_message(draw(clean, delivery_id=due.id), about, link)

    async def _draw_root(self, due: DueMessage, run_id: UUID) -> Card | None:
        async with self._db.connection() as connection:
            found = await views.run_and_values(connection, run_id)
            card = await views.waiting_card(connection, run_id) if found and found[0].waiting else None
        if found is None:
            return None
        run, values = found
        hidden = masking.hidden_in_run(values)
        link = (await self._permalinks.of([card])).get(card) if card else None
        return cards.run_root(await masking.clean_run(run, hidden), card=link, delivery_id=due.id)

    async def draw_unseen(self, due: DueMessage, request_ids: Sequence[UUID]) -> Card:
        with masking.work_for(masking.CARDS):
            named = await self._named(request_ids[:MAX_NAMED])
            return cards.unseen_card(len(request_ids), named, page=self._page, delivery_id=due.id)

    async def _draw_unseen_elsewhere(self, due: DueMessage, body: Mapping[str, Any]) -> Card:
        return cards.unseen_card(
            int(body["count"]),
            await self._named([UUID(each) for each in body["requests"]]),
            page=self._page,
            channel_id=body["channel"],
            why=body["text"],
            delivery_id=due.id,
        )

    async def _named(self, request_ids: Sequence[UUID]) -> list[RequestView]:
        found = await self._db.read(views.request_views, request_ids)
        return [await masking.clean_view(each) for each in found]

    async def draw_plainly(self, due: DueMessage, card: Card, code: str) -> Card:
        findable = "metadata" not in code
        is_card = due.kind == "card" and not due.unseen
        if not is_card or due.request_id is None or (view := await self._view(due.request_id)) is None:
            return cards.plain_message(card, findable=findable)
        shown = await masking.clean_view(view)
        return cards.plain_request_card(shown, delivery_id=due.id, findable=findable)

    async def _draw_digest(self, due: DueMessage, agent: str, posted: bool) -> Card | None:
        here = due.destination
        if due.newer_digest is not None:
            newer = (here.channel_id, due.newer_digest)
            link = (await self._permalinks.of([newer])).get(newer)
            return cards.outdated_digest_card(agent, link, delivery_id=due.id)
        if is_group(agent):
            return await self._draw_group(due, agent, posted)
        flood = await self._db.read(views.flood, here.team_id, here.channel_id, agent)
        if not (flood.waiting or posted):
            return None
        digest = cards.FloodDigest(
            agent,
            flood.waiting,
            flood.highest,
            flood.tools,
            flood.first_deadline,
            flood.notify if due.ts is None else (),  # updates notify nobody
        )
        return cards.flood_digest_card(digest, delivery_id=due.id)

    async def _draw_group(self, due: DueMessage, name: str, posted: bool) -> Card | None:
        group = await self._db.read(views.request_group, name)
        if not (group.first and (group.waiting or posted)):
            return None
        found = await self._db.read(views.request_views, group.first)
        first = [await masking.clean_view(each) for each in found]
        digest = GroupDigest(name, first, group.requests, group.waiting, group.first_deadline)
        return group_digest_card(digest, notify=due.ts is None, delivery_id=due.id)

    async def _view(self, request_id: UUID) -> RequestView | None:
        return await self._db.read(views.request_view, request_id)

    async def _draw_request(self, due: DueMessage, request_id: UUID) -> Card | None:
        view = await self._view(request_id)
        if view is None:
            return None
        self._reviewers.begin(view)
        shown = await masking.clean_view(view)
        if (
            isinstance(shown.action, MaskedAction)
            and shown.action.unseen
            and due.attempts < MAX_POSTPONEMENTS
        ):
            raise SlackUnavailable("not checked for secrets in time")
        names = await self._directory.names(cards.named_in(view))
        shown = await self._permalinks.with_card_links(shown)
        return cards.request_card(shown, names=names, delivery_id=due.id)


async def _hidden(view: RequestView | None, run: tuple[RunView, RunValues] | None) -> masking.Hidden:
    """Values secret by name or policy, which a result or an answer may repeat."""
    hidden = await masking.hidden_values(view) if view else ()
    return hidden + masking.hidden_in_run(run[1]) if run is not None else hidden


def _ending(run: RunView | None, body: Mapping[str, Any]) -> dict[str, str]:
    """What became of the actions, beside the agent's own words for it, for whoever is told of the end."""
    if run is None or "people" not in body or body.get("line") != "answer":
        return {}
    words = cards.of_outcomes(run.call_outcomes)
    return {"ending": words} if words else {}


def _quotes(body: Mapping[str, Any]) -> bool:
    """Whether it has external text, which may contain anything."""
    return not _PLAIN.issuperset(name for name, value in body.items() if value is not None)
