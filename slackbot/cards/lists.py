"""Ephemeral answers to commands: lists, details, help and refusals. They notify nobody."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from agent.domain.request_list import Count, HistoryLine, RequestLine
from agent.domain.request_view import RequestView
from agent.domain.run import RunView
from agent.domain.short_ids import short_id
from signoff.visible_text import visible
from slackbot.cards import blocks, inert, rows
from slackbot.cards.buttons import turning
from slackbot.cards.command_names import DEFAULT_NAMES, CommandNames
from slackbot.cards.request import request_card
from slackbot.cards.values import ACTION_REVOKE_LISTED, Card, Json, Names, Pages

MAX_ROWS = 20
MAX_TOOLS = 8
MAX_GUESS = 300

_PERSON = re.compile(r"\b[TE][A-Z0-9]{1,30}/([UW][A-Z0-9]{1,30})\b", re.ASCII)
_TYPED_PERSON = re.compile(r"<@[UW][A-Z0-9]{1,30}\|([^<>|]{1,80})>", re.ASCII)
DIRECT = "direct message"
"""Names direct messages to the app in `usage`."""

_USAGE = {
    DIRECT: (
        ("run <agent> <task>", "start an agent; its thread opens here"),
        ("help", "this help"),
        ("anything else", "a task for the policy's default agent, if there is one"),
        ("/agent help", "everything about agents"),
        ("/approvals help", "everything about requests"),
    ),
    "/agent": (
        ("/agent", "a form to choose an agent and write its task"),
        ("/agent run <agent> <task>", "start an agent; its thread opens in this channel"),
        ("/agent list", "list the agents"),
        ("/agent status [id]", "the latest runs, or one, with their status"),
        ("/agent cancel <id>", "end a run; its requests are withdrawn"),
        ("/agent pause [agent]", "stop an agent, or all of them, at once (administrators)"),
        ("/agent resume [agent]", "resume it; what was approved in the meantime begins"),
        ("/agent help", "this help"),
    ),
    "/approvals": (
        ("/approvals", "what waits for you"),
        ("/approvals mine", "requests on your behalf"),
        ("/approvals all", "all waiting requests that you may see"),
        ("/approvals show <id>", "one request with its facts and arguments"),
        (
            "/approvals history [mine] [agent:<name>] [by:@person] [status:<status>] [since:<date>] [until:<date>]",
            "what was decided",
        ),
        ("/approvals grants", "live grants, with a button to revoke each"),
        ("/approvals limits", "the use of the limits over time"),
        ("/approvals inbox", "your inbox in the browser"),
        ("/approvals stats [7|30|90]", "waiting requests, decisions, times and reviewers"),
        ("/approvals notify [dm|thread|off]", "how you are told of the outcome of what you asked for"),
        ("/approvals help", "this help"),
    ),
}


@dataclass(frozen=True, slots=True)
class AgentLine:
    """A loaded agent in a list: its name, its version, and the names of its tools."""

    name: str
    version: str
    tools: tuple[str, ...] = ()


def request_list(
    lines: Sequence[RequestLine],
    *,
    heading: str = "Requests",
    empty: str = "Nothing waits for review.",
    pages: Pages | None = None,
    count: Count | None = None,
    together: Sequence[Json] = (),
) -> Card:
    """`count`: over all pages, if counted. `together`: the row above, if a form can decide several of them."""
    if not lines:
        return _text_card(empty)
    made = [*together, *(row for line in lines[:MAX_ROWS] for row in rows.request(line))]
    return _listed(heading, len(lines), made, more=len(lines) > MAX_ROWS, pages=pages, in_all=count)


def history_list(
    lines: Sequence[HistoryLine],
    *,
    links: Mapping[UUID, str] | None = None,
    pages: Pages | None = None,
) -> Card:
    """`links`: thread addresses from Slack."""
    if not lines:
        return _text_card("No decided request matches.")
    links = links or {}
    made = [row for line in lines[:MAX_ROWS] for row in rows.decided_request(line, links.get(line.id))]
    return _listed("History", len(lines), made, more=len(lines) > MAX_ROWS, pages=pages)


def request_details(view: RequestView, *, names: Names | None = None) -> Card:
    """A request is decided on its card, so this has no buttons."""
    silent = view.rule.model_copy(update={"notify": ()})
    bare = request_card(replace(view, place_nonce="", rule=silent), names=names, whole=True)
    where = blocks.section(blocks.text("Its card is in "), blocks.channel(view.channel_id))
    made = [*bare.blocks, blocks.rich_text(where)]
    return Card(bare.text, blocks.with_ids(made, f"details:{view.id}"))


def run_list(
    runs: Sequence[RunView],
    *,
    more: bool = False,
    cancellable: frozenset[UUID] = frozenset(),
) -> Card:
    """Return the answer that lists runs; `more` says that others exist, `cancellable` which get Cancel."""
    if not runs:
        return _text_card("No agent has run yet.")
    made = [row for run in runs[:MAX_ROWS] for row in rows.run(run, cancellable=run.id in cancellable)]
    return _listed("Runs", len(runs), made, more=more or len(runs) > MAX_ROWS)


def agent_list(agents: Sequence[AgentLine]) -> Card:
    """Return the answer that lists loaded agents; without any, it names the setting that loads them."""
    if not agents:
        return _text_card("No agents are loaded. SIGNOFF_AGENTS names the modules to load.")
    made = [blocks.rich_text(blocks.bullets(_agent_row(agent) for agent in agents[:MAX_ROWS]))]
    return _listed("Agents", len(agents), made, more=len(agents) > MAX_ROWS)


def run_started(run: RunView) -> Card:
    """Tell the person who started an agent that its run has begun, and where its thread opens."""
    where = [blocks.text(" Its thread opens in "), blocks.channel(run.channel_id)] if run.channel_id else []
    name = blocks.text(inert.line(run.agent, 80), bold=True)
    row = blocks.section(name, blocks.text(" has started."), *where)
    return _card(f"{inert.mrkdwn(run.agent, 80)} has started.", [blocks.rich_text(row)])


def usage(command: str, names: CommandNames = DEFAULT_NAMES) -> Card:
    """Return the help for a command, by its own name or as `DIRECT`; for an unknown command, all forms."""
    lines = _USAGE.get(command, tuple(line for lines in _USAGE.values() for line in lines))
    known = [(names.spelled(what), why) for what, why in lines]
    items = [blocks.section(blocks.text(what, code=True), blocks.text(f"  {why}")) for what, why in known]
    text = inert.mrkdwn(f"How to use {names.label}: {'; '.join(what for what, _ in known)}", 1000)
    return _card(text, [blocks.rich_text(blocks.bullets(items))])


def misunderstood_command(
    command: str,
    problem: str,
    names: CommandNames = DEFAULT_NAMES,
    *,
    guess: str | None = None,
    about: str = "",
) -> Card:
    """An error and the correct usage.

    `guess`, the probable command, is on its own line, to be copied; `about`: its topic. Both and `problem` have the
    installation's names already.
    """
    meant = _copyable(guess) if guess else None
    wrong = inert.line(problem, 300) or "That was not understood."
    lines = [
        *([blocks.section(blocks.text(meant, code=True))] if meant else []),
        blocks.section(blocks.text(wrong)),
        blocks.section(*_in_short(command, about, names)),
    ]
    text = f"{inert.mrkdwn(problem, 300) or wrong} {inert.mrkdwn(meant, 400) if meant else ''}".strip()
    return _card(text, [blocks.rich_text(line) for line in lines])


def _copyable(command: str) -> str | None:
    """None if the command cannot be shown exactly."""
    typed = _TYPED_PERSON.sub(r"@\1", command)
    shown = inert.line(typed, MAX_GUESS)
    return shown if shown == typed else None


def _in_short(command: str, about: str, names: CommandNames) -> list[Json]:
    known = _USAGE.get(command, ())
    for what, why in known:
        if about and what.split()[1:2] == [about]:
            return [blocks.text(names.spelled(what), code=True), blocks.text(f"  {why}")]
    words = ", ".join(what.split()[1] for what, _ in known if len(what.split()) > 1)
    more = blocks.text(names.spelled(f"{command} help"), code=True)
    return [blocks.text(f"Subcommands: {words}. For help: "), more]


def refusal_text(sentence: str) -> str:
    """A refusal for an ephemeral `text`; `team/user` ids become mentions."""
    return _PERSON.sub(r"<@\1>", inert.escaped(inert.shortened(visible(sentence), 1000)))


def _agent_row(agent: AgentLine) -> Json:
    tools = ", ".join(inert.line(tool, 40) for tool in agent.tools[:MAX_TOOLS]) or "no tools"
    rest = f" and {len(agent.tools) - MAX_TOOLS:,} more" if len(agent.tools) > MAX_TOOLS else ""
    name = blocks.text(inert.line(agent.name, 64), bold=True)
    return blocks.section(name, blocks.text(f", version {inert.line(agent.version, 40)} · {tools}{rest}"))


def _listed(
    heading: str,
    count: int,
    made: list[Json],
    *,
    more: bool,
    pages: Pages | None = None,
    in_all: Count | None = None,
) -> Card:
    shown = in_all or min(count, MAX_ROWS)
    known = f" ({in_all})" if in_all else ""
    title = blocks.rich_text(blocks.section(blocks.text(f"{inert.line(heading, 100)}{known}", bold=True)))
    rest = blocks.rich_text(blocks.section(blocks.text("… there are more", italic=True)))
    turns = turning(pages or Pages(), heading)
    text = f"{inert.mrkdwn(heading, 100)}: {shown}"
    return _card(text, [title, *made, *([rest] if more and not turns else []), *turns])


def _text_card(sentence: str) -> Card:
    return _card(sentence, [blocks.rich_text(blocks.section(blocks.text(sentence)))])


def _card(text: str, made: list[Json]) -> Card:
    return Card(text, blocks.with_ids(made, "answer"))


MOST_GRANTS = 20


@dataclass(frozen=True, slots=True)
class GrantLine:
    """A live grant in a list: how often it has been used, of how many times, and when it ends."""

    id: UUID
    description: str
    uses: int
    max_uses: int
    until: datetime


def grant_list(lines: Sequence[GrantLine]) -> Card:
    """Return the answer that lists the grants a person may revoke, each with a Revoke button."""
    if not lines:
        return Card("There are no grants that you may revoke.", [])
    heading = blocks.rich_text(blocks.section(blocks.text("Grants", bold=True)))
    text = "1 grant is live" if len(lines) == 1 else f"{len(lines):,} grants are live"
    return Card(text, blocks.with_ids([heading, *grant_rows(lines, MOST_GRANTS)], "grants"))


def grant_rows(lines: Sequence[GrantLine], most: int) -> list[Json]:
    """Return the rows of up to `most` grants, each with Revoke; a last row counts those left out."""
    rows: list[Json] = []
    for each in lines[:most]:
        about = each.description if inert.line(each.description, 10) else short_id(each.id)
        revoke = blocks.button("Revoke", ACTION_REVOKE_LISTED, str(each.id), about, "danger")
        rows.append(blocks.labelled(inert.line(each.description, 400), revoke))
        used = f"used {each.uses:,} of {each.max_uses:,} times · ends {blocks.moment_mrkdwn(each.until)}"
        rows.append(blocks.context(used))
    if (more := len(lines) - most) > 0:
        rows.append(blocks.context(f"… and {more:,} more: `signoff grants` lists all of them"))
    return rows
