"""Buttons of an inbox row: Approve if the description is sufficient, else a link to the form."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from agent.database.pools import Database
from agent.domain.request import Verdict
from agent.domain.request_list import RequestLine
from agent.domain.request_view import RequestView
from agent.store import views
from signoff.description import shown
from signoff.values import Risk
from slackbot.cards import amounts, inert, unreadable
from slackbot.cards.together_form import LEAST
from slackbot.masking import clean_view
from slackbot.reviewing.together import apart_as_shown

DESCRIPTION = 200
"""Characters in a row."""


@dataclass(frozen=True, slots=True)
class RowForm:
    """A row's buttons, for its revision; ``approvable``: people can read what would run.

    ``at_once``: Approve works from the row, which shows the whole description. High risk needs the checkbox, and a
    required comment the field, of the request's page. ``rejectable``: so does Reject, which needs no reason.
    ``answerable``: the page has a form for an answer. ``kind``: checkpoint and tool, if one form may decide it with
    others of its kind.
    """

    revision: int
    at_once: bool
    approvable: bool
    rejectable: bool
    money: str
    answerable: bool = False
    kind: tuple[str, str] | None = None


_KEPT = 4096
_made: OrderedDict[tuple[UUID, int], RowForm] = OrderedDict()
"""Recent forms by request and revision, for which a form does not change."""


async def row_forms(db: Database, lines: Sequence[RequestLine]) -> Mapping[UUID, RowForm]:
    """Return each row's buttons by request id; whatever is not remembered for its revision is read."""
    kept = {line.id: form for line in lines if (form := _made.get((line.id, line.revision)))}
    others = [line.id for line in lines if line.id not in kept]
    if not others:
        return kept
    found = await db.read(views.request_views, others)
    shown = await asyncio.gather(*(clean_view(view) for view in found))
    return kept | {view.id: _row_form(view, stored) for view, stored in zip(shown, found, strict=True)}


def together(forms: Mapping[UUID, RowForm]) -> frozenset[UUID]:
    """The rows that can be ticked: those of a kind of which there are at least two."""
    kinds = Counter(form.kind for form in forms.values())
    return frozenset(each for each, form in forms.items() if form.kind and kinds[form.kind] >= LEAST)


def _row_form(view: RequestView, stored: RequestView) -> RowForm:
    form = RowForm(
        view.revision,
        _is_enough(view.description)
        and view.risk < Risk.HIGH
        and not view.rule.hidden
        and Verdict.APPROVE not in view.rule.reason_required,
        not view.wants_answer and not unreadable(view),
        Verdict.REJECT not in view.rule.reason_required,
        amounts(view),
        view.wants_answer,
        None if apart_as_shown(view, stored) else (view.checkpoint_id, view.action.tool),
    )
    # A description that differs may be masked only for lack of time, so it is not kept.
    if form.approvable and view.description == shown(stored.description):
        _made[view.id, view.revision] = form
        if len(_made) > _KEPT:
            _made.popitem(last=False)
    return form


def _is_enough(description: str) -> bool:
    shown = inert.line(description, DESCRIPTION)
    return bool(shown) and shown == inert.line(description, 10 * len(description))
