"""What a row of the inbox offers: Approve at once where a description is enough to go by, else the way to the form."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from agent.database.pools import Database
from agent.domain.request import Verdict
from agent.domain.request_line import RequestLine
from agent.domain.request_view import RequestView
from agent.store import views
from signoff.values import Risk
from slackbot.cards import amounts, inert, unreadable
from slackbot.masking import clean_view

DESCRIPTION = 200
"""Characters of a description that a row shows."""


@dataclass(frozen=True, slots=True)
class RowForm:
    """The buttons of one row, for the revision that it shows; ``approvable``: people can read what would run.

    ``at_once``: Approve counts from the row, which shows the whole description. High risk takes its tick, and a
    required comment its field, on the request's page.
    """

    revision: int
    at_once: bool
    approvable: bool
    money: str


_KEPT = 4096
_made: OrderedDict[tuple[UUID, int], RowForm] = OrderedDict()
"""The forms that were made last, by request and revision: nothing in one changes while its revision stands."""


async def row_forms(db: Database, lines: Sequence[RequestLine]) -> Mapping[UUID, RowForm]:
    """The buttons for what waits for this person, by request."""
    kept = {line.id: form for line in lines if (form := _made.get((line.id, line.revision)))}
    others = [line.id for line in lines if line.id not in kept]
    if not others:
        return kept
    found = await db.read(views.request_views, others)
    shown = await asyncio.gather(*(clean_view(view) for view in found))
    return kept | {view.id: _row_form(view, stored) for view, stored in zip(shown, found, strict=True)}


def _row_form(view: RequestView, stored: RequestView) -> RowForm:
    form = RowForm(
        view.revision,
        _is_enough(view.description)
        and view.risk < Risk.HIGH
        and Verdict.APPROVE.value not in view.reason_required,
        not unreadable(view),
        amounts(view.facts, view.description),
    )
    if (
        form.approvable and view.description == stored.description
    ):  # else it may be masked for want of time only
        _made[view.id, view.revision] = form
        if len(_made) > _KEPT:
            _made.popitem(last=False)
    return form


def _is_enough(description: str) -> bool:
    """Whether a row says all of it."""
    shown = inert.line(description, DESCRIPTION)
    return bool(shown) and shown == inert.line(description, 10 * len(description))
