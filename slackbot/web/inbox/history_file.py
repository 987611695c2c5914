"""The history as a table for spreadsheets: what the page's list shows, all pages of it."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from io import StringIO

from agent.domain.request_list import HistoryLine, RequestFilter, RequestKind, RequestOrder
from signoff.visible_text import visible
from slackbot.cards import Names, inert
from slackbot.cards.cursor import Cursor
from slackbot.cards.question import answer_in_words
from slackbot.reviewing.listing import PersonalLists
from slackbot.web.inbox.words import state_words

AT_ONCE = 200
"""Lines that are read, and held, at a time."""

BYTE_ORDER_MARK = "\ufeff"
"""Without it, some spreadsheets take UTF-8 for something else."""

COLUMNS = (
    *("id", "request", "status", "risk", "agent", "requester", "requester_id", "asked_at"),
    *("decided_by", "decided_by_ids", "decided_at", "reason", "channel_id", "answer", "together"),
)


async def history_file(
    lists: PersonalLists, kind: RequestKind, wanted: RequestFilter, order: RequestOrder
) -> AsyncIterator[str]:
    """Each page looks up the reader's rights anew."""
    yield BYTE_ORDER_MARK + _written([COLUMNS])
    at: Cursor | None = Cursor()
    while at is not None:
        found = await lists.found(kind, wanted, at, AT_ONCE, order)
        if found.lines:
            names = await lists.directory.names(_people(found.lines))
            yield _written(_cells(line, names) for line in found.lines)
        last = found.forward.after if found.forward else None
        at = Cursor((last,)) if last else None


def _people(lines: Iterable[HistoryLine]) -> set[str]:
    return {
        each.user_id for line in lines for each in (line.behalf.requester, *line.deciders) if each is not None
    }


def _cells(line: HistoryLine, names: Names) -> list[str]:
    requester = line.behalf.requester
    deciders = [each.user_id for each in line.deciders]
    return [
        str(line.id),
        line.description,
        state_words(line.standing),
        line.risk.value,
        line.chain,
        "anyone" if line.behalf.anyone else names.of(requester.user_id) if requester else "",
        requester.user_id if requester else "",
        _time(line.created_at),
        ", ".join(map(names.of, deciders)),
        ", ".join(deciders),
        _time(line.decided_at),
        line.reason or "",
        line.channel_id,
        "" if line.answer is None else answer_in_words(line.answer),
        str(line.together or ""),
    ]


def _time(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""


def _written(rows: Iterable[Iterable[str]]) -> str:
    out = StringIO()
    csv.writer(out).writerows([inert.cell(visible(cell)) for cell in row] for row in rows)
    return out.getvalue()
