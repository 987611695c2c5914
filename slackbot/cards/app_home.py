"""One person's App Home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from agent.domain.request_list import Count, HistoryLine, RequestLine
from agent.domain.request_view import RequestView
from agent.domain.run import RunView
from signoff.values import Risk
from slackbot.cards import arguments, blocks, buttons, facts, inert, rows, status_words
from slackbot.cards.buttons import subject
from slackbot.cards.limits import LimitLine, limits_of
from slackbot.cards.lists import GrantLine, grant_rows
from slackbot.cards.request import unreadable, withheld_note, without_command_in_title
from slackbot.cards.together_form import together_row
from slackbot.cards.values import Json, Names, Pages

MAX_WAITING = 8
MAX_ROWS = 6
MAX_GRANTS = 4
MAX_LIMITS = 10
MAX_HOME_TITLE = 400
MAX_HOME_FACTS = 500
MAX_HOME_ARGUMENTS = 700

PAGE_OF_HOME = "home"


@dataclass(frozen=True, slots=True)
class HomeView:
    """One person's App Home.

    `waiting`: what this person may decide now, with nonces of its places here; `waiting_count`: on all pages, None if
    not counted. `cancellable`: runs that they may end. `links`: thread addresses of decided requests.
    """

    waiting: Sequence[RequestView] = ()
    mine: Sequence[RequestLine] = ()
    running: Sequence[RunView] = ()
    decided: Sequence[HistoryLine] = ()
    waiting_count: Count | None = None
    waiting_pages: Pages = field(default_factory=Pages)
    mine_pages: Pages = field(default_factory=Pages)
    cancellable: frozenset[UUID] = frozenset()
    links: Mapping[UUID, str] = field(default_factory=dict)
    grants: Sequence[GrantLine] = ()
    limits: Sequence[LimitLine] = ()
    names: Names = field(default_factory=Names)


def home(view: HomeView) -> Json:
    """Return the view of one person's App Home; empty grants and limits get no part of their own."""
    count = f" ({view.waiting_count})" if view.waiting_count is not None else ""
    made = [
        *_part(
            f"Waiting for me{count}",
            [
                *together_row(view.waiting, {}),
                *(row for each in view.waiting[:MAX_WAITING] for row in _waiting(each, view.names)),
            ],
        ),
        *buttons.turning(view.waiting_pages, "waiting for me"),
        *_part("My requests", [row for line in view.mine[:MAX_ROWS] for row in rows.request(line)]),
        *buttons.turning(view.mine_pages, "my requests"),
        *_part(
            "Running agents",
            [
                row
                for run in view.running[:MAX_ROWS]
                for row in rows.run(run, cancellable=run.id in view.cancellable)
            ],
        ),
        *_part(
            "Recently decided",
            [
                row
                for line in view.decided[:MAX_ROWS]
                for row in rows.decided_request(line, view.links.get(line.id))
            ],
        ),
        *(_part("Grants", grant_rows(view.grants, MAX_GRANTS)) if view.grants else []),
        *(_part("Limits", [blocks.rich_text(limits_of(view.limits, MAX_LIMITS))]) if view.limits else []),
    ]
    return {"type": "home", "blocks": blocks.with_ids(made, "home")}


def _part(heading: str, made: list[Json]) -> list[Json]:
    nothing = blocks.rich_text(blocks.section(blocks.text("Nothing at the moment.", italic=True)))
    return [blocks.header(heading), *(made or [nothing])]


def _risk(view: RequestView) -> Json:
    return blocks.text(f"{view.risk.value.capitalize()} risk · ", bold=view.risk >= Risk.HIGH)


def _waiting(view: RequestView, names: Names) -> list[Json]:
    withheld = unreadable(view)
    title, is_cut = inert.line_and_rest(subject(without_command_in_title(view)), MAX_HOME_TITLE)
    counted = status_words.progress(
        view.approvals,
        view.approvals_required,
        status_words.counted(view),
    )
    line = blocks.section(
        *([] if view.wants_answer else [_risk(view)]),
        blocks.text(f"{counted} · " if counted else ""),
        blocks.text(f"agent {inert.line(view.chain, 80)} · for "),
        blocks.requester(view.behalf),
        blocks.text(" · until "),
        blocks.moment(view.expires_at),
        blocks.text(" · "),
        blocks.channel(view.channel_id),
    )
    return [
        blocks.rich_text(
            blocks.section(blocks.text(title, bold=True)),
            line,
            *facts.shown(view, MAX_HOME_FACTS, 6),
            *arguments.shown(view, MAX_HOME_ARGUMENTS, 8, title_shown=not is_cut).parts,
            *arguments.hidden_note(view),
        ),
        *withheld_note(view, withheld),
        *buttons.row(view, names, approvable=not withheld),
        blocks.divider(),
    ]
