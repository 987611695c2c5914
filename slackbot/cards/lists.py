"""Answers to commands: lists, details, help and refusals, for ephemeral messages. They mention nobody new."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.domain.request import RequestLine, RequestView
from agent.domain.run import RunView
from slackbot.cards import blocks, inert, status
from slackbot.cards.lines import run_words
from slackbot.cards.request import request_card
from slackbot.cards.values import Card, Json, Names

MAX_ROWS = 20
MAX_TOOLS = 8

_PERSON = re.compile(r"\b[TE][A-Z0-9]{1,30}/([UW][A-Z0-9]{1,30})\b", re.ASCII)
_USAGE = {
    "/agent": (
        ("/agent run <agent> <task>", "start an agent; its thread opens in this channel"),
        ("/agent list", "which agents there are"),
        ("/agent status", "the latest runs and where they stand"),
    ),
    "/approvals": (
        ("/approvals", "what waits for review"),
        ("/approvals show <id>", "one request with its facts and arguments"),
    ),
}


@dataclass(frozen=True, slots=True)
class AgentLine:
    """An agent in one line of a list."""

    name: str
    version: str
    tools: tuple[str, ...] = ()


def request_list(lines: Sequence[RequestLine], *, more: bool = False) -> Card:
    """What waits for review, in the caller's order; `more`: there are others behind the last."""
    if not lines:
        return _said("Nothing waits for review.")
    rows = [_request_row(line) for line in lines[:MAX_ROWS]]
    return _listed("Requests", rows, more=more or len(lines) > MAX_ROWS)


def request_details(view: RequestView, *, names: Names | None = None) -> Card:
    """One request as its card shows it, without buttons: it is decided where its card is."""
    bare = request_card(replace(view, place_nonce="", notify=()), names=names)
    where = blocks.section(blocks.text("Its card is in "), blocks.channel(view.channel_id))
    rows = [*bare.blocks, blocks.rich_text(where)]
    return Card(bare.text, blocks.with_ids(rows, f"details:{view.id}"))


def run_list(runs: Sequence[RunView], *, more: bool = False) -> Card:
    """Runs and where they stand, in the caller's order."""
    if not runs:
        return _said("No agent has run yet.")
    return _listed("Runs", [_run_row(run) for run in runs[:MAX_ROWS]], more=more or len(runs) > MAX_ROWS)


def agent_list(agents: Sequence[AgentLine]) -> Card:
    """Which agents there are and what they can do."""
    if not agents:
        return _said("No agents are loaded. SIGNOFF_AGENTS names the modules to load.")
    return _listed("Agents", [_agent_row(agent) for agent in agents[:MAX_ROWS]], more=len(agents) > MAX_ROWS)


def run_started(run: RunView) -> Card:
    """Tells who typed `/agent run` that it has begun, and where to follow it."""
    where = [blocks.text(" Its thread opens in "), blocks.channel(run.channel_id)] if run.channel_id else []
    name = blocks.text(inert.line(run.agent, 80), bold=True)
    row = blocks.section(name, blocks.text(" has started."), *where)
    return _card(f"{inert.mrkdwn(run.agent, 80)} has started.", [blocks.rich_text(row)])


def usage(command: str, problem: str | None = None) -> Card:
    """How a command is used; `problem` says first what was wrong with what was typed."""
    known = _USAGE.get(command, tuple(line for lines in _USAGE.values() for line in lines))
    rows = [blocks.section(blocks.text(what, code=True), blocks.text(f"  {why}")) for what, why in known]
    wrong = inert.line(problem or "", 300)
    first = [blocks.section(blocks.text(wrong))] if wrong else []
    text = inert.mrkdwn(f"{wrong or 'How to use it'}: {'; '.join(what for what, _ in known)}", 1000)
    return _card(text, [blocks.rich_text(*first, blocks.bullets(rows))])


def refusal_text(sentence: str) -> str:
    """A refusal for an ephemeral `text`: our own sentence, in which `team/user` ids become a mention."""
    return _PERSON.sub(r"<@\1>", inert.escaped(inert.shortened(inert.visible(sentence), 1000)))


def _request_row(line: RequestLine) -> Json:
    title = f"{line.risk.value.capitalize()} risk · {line.description}"
    return blocks.section(
        blocks.text(inert.line(title, 160), bold=True),
        blocks.text(f" · {status.of_status(line.status)}, {line.approvals} of {line.approvals_required} · "),
        blocks.text(f"{inert.line(line.agent, 40)} for "),
        blocks.person(line.requester, "nobody in Slack"),
        blocks.text(" · until "),
        blocks.moment(line.expires_at),
        blocks.text(" in "),
        blocks.channel(line.channel_id),
        blocks.text(" · "),
        blocks.text(str(line.id), code=True),
    )


def _run_row(run: RunView) -> Json:
    where = [blocks.text(" in "), blocks.channel(run.channel_id)] if run.channel_id else []
    return blocks.section(
        blocks.text(run_words(run.status), bold=True),
        blocks.text(f" · {inert.line(run.agent, 40)}: {inert.line(run.task, 160)} · for "),
        blocks.person(run.requester, "nobody in Slack"),
        *where,
        blocks.text(" · "),
        blocks.text(str(run.id), code=True),
    )


def _agent_row(agent: AgentLine) -> Json:
    tools = ", ".join(inert.line(tool, 40) for tool in agent.tools[:MAX_TOOLS]) or "no tools"
    rest = f" and {len(agent.tools) - MAX_TOOLS:,} more" if len(agent.tools) > MAX_TOOLS else ""
    name = blocks.text(inert.line(agent.name, 64), bold=True)
    return blocks.section(name, blocks.text(f", version {inert.line(agent.version, 40)} · {tools}{rest}"))


def _listed(heading: str, rows: list[Json], *, more: bool) -> Card:
    title = blocks.section(blocks.text(heading, bold=True))
    rest = [blocks.section(blocks.text("… there are more", italic=True))] if more else []
    return _card(f"{heading}: {len(rows)}", [blocks.rich_text(title, blocks.bullets(rows), *rest)])


def _said(sentence: str) -> Card:
    return _card(sentence, [blocks.rich_text(blocks.section(blocks.text(sentence)))])


def _card(text: str, rows: list[Json]) -> Card:
    return Card(text, blocks.with_ids(rows, "answer"))
