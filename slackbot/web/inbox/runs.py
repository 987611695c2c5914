"""Runs: which there are, and one with its conversation, its calls and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.domain.errors import NotFound
from agent.domain.run import CallView, Message, RunView
from agent.store import reads
from slackbot.identity import visible_runs
from slackbot.secrets import clean_run, clean_runs, clean_value, hidden_in_run
from slackbot.web.inbox.pages import PageRoute, page
from slackbot.web.site import Site, site_of
from slackbot.web.visitors import Signed, Visitor

MOST_RUNS = 100
MOST_ENTRIES = 300
"""Messages and calls of one run that its page shows, the latest."""

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """A message or a call of a run; a call has its ``tool``."""

    role: str
    text: str = ""
    tool: str = ""
    state: str = ""
    answer: str = ""
    request_id: UUID | None = None
    user_id: str = ""


@router.get("/inbox/runs")
async def runs(request: Request, who: Signed) -> Response:
    """The latest runs that the visitor may see."""
    site = site_of(request)
    async with site.db.connection() as connection:
        found = await reads.recent_runs(connection, team_id=site.slack.team_id, limit=MOST_RUNS)
        values = await reads.values_of(connection, [each.id for each in found])
    seen = await clean_runs(await visible_runs(site.slack.directory, who.person, found), values=values)
    return page("runs.html", here="runs", visitor=who, runs=seen, **await _named(site, who, seen))


@router.get("/inbox/runs/{run_id}")
async def run(request: Request, run_id: str, who: Signed) -> Response:
    """A run with its conversation."""
    return page("run.html", here="runs", visitor=who, **await _opened(site_of(request), who, run_id))


@router.get("/inbox/runs/{run_id}/now")
async def run_now(request: Request, run_id: str, who: Signed) -> Response:
    """The same without its frame, for a page that is open already."""
    return page("transcript.html", visitor=who, **await _opened(site_of(request), who, run_id))


async def _opened(site: Site, who: Visitor, run_id: str) -> dict[str, Any]:
    try:
        wanted = UUID(run_id)
    except ValueError:
        raise NotFound(run_id) from None
    async with site.db.connection() as connection:
        view = await reads.run_view(connection, wanted)
    seen = await visible_runs(site.slack.directory, who.person, [view] if view else [])
    if not seen:
        raise NotFound(run_id)
    async with site.db.connection() as connection:
        messages = await reads.messages(connection, wanted)
        calls = await reads.calls(connection, wanted)
        values = (await reads.values_of(connection, [wanted])).get(wanted)
    hidden = hidden_in_run(values) if values is not None else ()
    entries = _entries(messages, calls)
    shown: list[Any] = await clean_value([[e.text, e.answer] for e in entries[-MOST_ENTRIES:]], hidden)
    clean = [
        Entry(e.role, text, e.tool, e.state, answer, e.request_id, e.user_id)
        for e, (text, answer) in zip(entries[-MOST_ENTRIES:], shown, strict=True)
    ]
    thread = (seen[0].channel_id, seen[0].thread_ts)
    links = await site.slack.permalinks.of([(thread[0], thread[1])] if thread[0] and thread[1] else [])
    return {
        "run": await clean_run(seen[0], hidden),
        "entries": clean,
        "omitted": max(0, len(entries) - MOST_ENTRIES),
        "thread_link": next(iter(links.values()), None),
        **await _named(site, who, seen, [e.user_id for e in clean if e.user_id]),
    }


def _entries(messages: Sequence[Message], calls: Sequence[CallView]) -> list[Entry]:
    """The conversation in order, each turn's calls behind what the model said in it."""
    found: list[Entry] = []
    left = list(calls)
    for message in messages:
        author = message.author.user_id if message.author else ""
        if message.text:
            found.append(Entry(message.role, message.text, user_id=author))
        if message.role == "assistant":
            found += [_call(call) for call in left if call.turn <= message.turn]
            left = [call for call in left if call.turn > message.turn]
    return [*found, *map(_call, left)]


def _call(call: CallView) -> Entry:
    state = call.answer.kind.value if call.answer else call.state.value
    answer = call.answer.text if call.answer else ""
    return Entry(
        "call", call.raw_arguments, call.tool, state.replace("_", " "), answer, request_id=call.request_id
    )


async def _named(
    site: Site, who: Visitor, seen: Sequence[RunView], more: Sequence[str] = ()
) -> dict[str, Any]:
    people = {who.person.user_id, *more, *(each.requester.user_id for each in seen if each.requester)}
    directory = site.slack.directory
    return {
        "names": await directory.names(people),
        "channels": await directory.channel_names(each.channel_id for each in seen if each.channel_id),
    }
