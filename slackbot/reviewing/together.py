"""Several requests decided in one form: what it may show, and a vote on each.

Together is not at once: each vote is judged by every rule of its request, as if it came alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from uuid import UUID, uuid4

import structlog

from agent.database.background import start_task
from agent.database.errors import DatabaseUnavailable
from agent.database.pools import Database
from agent.domain.errors import Refusal, Refused, sentence
from agent.domain.request import Place, RequestStatus, Together, Verdict
from agent.domain.request_list import RequestFilter, RequestOrder
from agent.domain.request_view import RequestView
from agent.domain.verdicts import OUTCOMES
from agent.store import views
from agent.usecases import requests
from agent.usecases.requests import Votes
from signoff.description import shown
from signoff.values import Person
from slackbot.cards.cursor import Cursor
from slackbot.cards.together_form import MOST, CarriedRow, LeftOut, RowOutcome, TogetherForm, apart
from slackbot.masking import clean_view
from slackbot.reviewing.listing import PersonalLists
from slackbot.reviewing.visibility import view_refusal
from slackbot.reviewing.votes import OUTCOME_UNKNOWN, VOTE_BUDGET, NewVote, cast_vote
from slackbot.slack_api.directory import Directory

log = structlog.get_logger(__name__)

SCANNED = 50
"""Requests that one form is chosen from."""

LEAST = 0.2
"""Seconds that are left for the answer when votes are no longer waited for."""

NOT_RECORDED = "This vote was not recorded in time. Please decide it on its card."
OTHER_KIND = "it is of another kind"
CHANGED = "It has changed since this form was opened. Please look at it first."


Query = Mapping[str, str]
"""What a form is chosen from: `agent`, `key` or `group`, `checkpoint`, `tool`, and `after` which request, if given."""


def _order(query: Query) -> RequestOrder:
    """Return the order of a list or form: a group, as it was asked; what is of mixed origin, by deadline."""
    return RequestOrder.ASKED if query.get("group") else RequestOrder.DEADLINE


async def open_form(
    db: Database, directory: Directory, person: Person, query: Query, chosen: Sequence[UUID] = ()
) -> tuple[TogetherForm | None, Sequence[LeftOut]]:
    """Return the form for the first requests of one kind that wait for a person, and those that it leaves out.

    Without a kind in ``query``, it is the one that has most of them. ``chosen``: only these. None: nothing fits. Raises
    ValueError for a query that Signoff never made.
    """
    lists = PersonalLists(db, directory, person)
    at = Cursor((UUID(query["after"]),)) if "after" in query else Cursor()
    page = await lists.waiting_for_me(at, SCANNED, _filter(query), _order(query))
    found = await db.read(views.request_views, chosen[:SCANNED] or [line.id for line in page.lines])
    waiting = [view for view in found if view.status is RequestStatus.WAITING]
    visible = [view for view in waiting if await view_refusal(directory, person, view) is None]
    seen = [_Seen(*await _shown(view)) for view in visible if query.get("tool") in (None, view.action.tool)]
    kind = _most(seen)
    of_kind = [each for each in seen if each.kind == kind]
    fitting = [each.view for each in of_kind if each.why is None]
    rows, more = fitting[:MOST], len(fitting) > MOST or page.forward is not None
    so_far = of_kind[: of_kind.index(_Seen(rows[-1], None))] if len(fitting) > MOST else of_kind
    left_out = [LeftOut(each.view, each.why) for each in so_far if each.why is not None]
    left_out += [LeftOut(each.view, OTHER_KIND) for each in seen if chosen and each.kind != kind]
    if not rows:
        return None, left_out
    nonces = await requests.create_places(db, [view.id for view in rows], "modal", person)
    placed = [replace(view, place_nonce=nonces[view.id]) for view in rows if view.id in nonces]
    checkpoint, tool = of_kind[0].kind
    rest = {**query, "checkpoint": checkpoint, "tool": tool, "after": str(rows[-1].id)}
    return TogetherForm(uuid4(), placed, left_out, rest if more and not chosen else None), left_out


@dataclass(frozen=True, slots=True)
class FormDecision:
    """What a person decided in a form: one verdict for all that is ticked. ``form_id``: of the opened form."""

    person: Person
    form_id: UUID
    verdict: Verdict
    reason: str | None
    path: str
    arrived: float = field(default_factory=monotonic)


async def decide(
    votes: Votes, directory: Directory, decision: FormDecision, rows: Sequence[CarriedRow]
) -> list[RowOutcome]:
    """Cast one vote for each ticked row, within a click's time; repeated, nothing changes.

    A row whose request the form may not show, or did not show as it is, is refused, on record. Raises Refused
    (REASON_REQUIRED) if a checkpoint asks for a reason and there is none: then no vote was cast.
    """
    found = await votes.db.read(views.request_views, [row.value.request_id for row in rows])
    if decision.reason is None and any(decision.verdict in view.rule.reason_required for view in found):
        raise Refused(Refusal.REASON_REQUIRED)
    shown = await asyncio.gather(*map(_shown, found))
    known = {view.id: _Seen(view, why) for view, why in shown}
    tasks = [
        start_task(
            _decide_one(votes, directory, decision, row, known.get(row.value.request_id), len(rows) - 1),
            "vote",
        )
        for row in rows
    ]
    left = decision.arrived + VOTE_BUDGET + LEAST - monotonic()
    await asyncio.wait(tasks, timeout=max(0.0, left))
    late = [task for task in tasks if not task.done()]
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return [RowOutcome(None, "", OUTCOME_UNKNOWN) if task in late else task.result() for task in tasks]


async def _decide_one(
    votes: Votes,
    directory: Directory,
    decision: FormDecision,
    row: CarriedRow,
    seen: _Seen | None,
    others: int,
) -> RowOutcome:
    """Whoever may not see a request learns nothing of it from a form of their own making."""
    if seen is None or await view_refusal(directory, decision.person, seen.view) is not None:
        return RowOutcome(None, "", sentence(Refusal.UNKNOWN_REQUEST))
    view, value = seen.view, row.value
    try:
        if seen.why is not None and view.status is RequestStatus.WAITING and view.revision == value.revision:
            refused = (view.id, view.revision, decision.person, Refusal.NOT_TOGETHER, decision.path)
            await requests.record_refusal(votes.db, *refused)
            return RowOutcome(view, "", f"It is decided on its own card: {seen.why}.")
        counted = await cast_vote(
            votes,
            directory,
            NewVote(
                decision.person,
                view.id,
                value.revision,
                decision.verdict,
                decision.path,
                decision.reason,
                Place(value.nonce, "modal"),
                together=Together(decision.form_id, row.digest, others),
                arrived=decision.arrived,
            ),
        )
    except Refused as refused:
        return RowOutcome(view, "", CHANGED if refused.code is Refusal.STALE_REVISION else refused.sentence)
    except DatabaseUnavailable:
        return RowOutcome(view, "", NOT_RECORDED)
    except Exception:
        log.exception("a vote of a form failed", action="vote.failed", request_id=str(view.id))
        return RowOutcome(view, "", OUTCOME_UNKNOWN)
    if counted.status is RequestStatus.WAITING:
        return RowOutcome(view, f"counted, {counted.needed} more needed")
    return RowOutcome(view, OUTCOMES[counted.status].title.lower())


async def _shown(view: RequestView) -> tuple[RequestView, str | None]:
    """The request as people see it, and why a form may not show it with others."""
    clean = await clean_view(view)
    return clean, apart_as_shown(clean, view)


def apart_as_shown(clean: RequestView, stored: RequestView) -> str | None:
    """Return why a request is decided on its own, from what people see of it and what is stored."""
    masked = clean.facts != stored.facts or clean.description != shown(stored.description)
    return apart(clean, masked=masked)


@dataclass(frozen=True, slots=True)
class _Seen:
    view: RequestView
    why: str | None

    @property
    def kind(self) -> tuple[str, str]:
        return self.view.checkpoint_id, self.view.action.tool


def _most(seen: Sequence[_Seen]) -> tuple[str, str] | None:
    """The kind with most requests that fit, the first among equals; of those that do not, if none does."""
    counted = Counter([each.kind for each in seen if each.why is None] or [each.kind for each in seen])
    return max(counted, key=counted.__getitem__, default=None)


def _filter(query: Query) -> RequestFilter:
    return RequestFilter(
        agent=query.get("agent", ""),
        key=query.get("key", ""),
        group=query.get("group", ""),
        checkpoint_id=query.get("checkpoint", ""),
    )
