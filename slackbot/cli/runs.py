"""`signoff runs`: list, show and resume runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import typer

from agent.database.pools import Database
from agent.domain.run import CallOutcome, CallView, Message, RunStatus, RunView
from agent.domain.short_ids import short_id
from agent.store import views
from agent.usecases.runs import resumption
from signoff.errors import SignoffError
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_settings, with_database
from slackbot.cli.command_group import ListByDefault
from slackbot.cli.requests import AgentName, JsonFlag, Limit, Since
from slackbot.masking import Hidden, clean_run, clean_runs, clean_text, clean_value, hidden_in_run

commands = typer.Typer(
    cls=ListByDefault,
    help="List or show runs, or resume a failed one."
    "\n\nWithout a command it lists, with the options of `list`.",
)

RunId = Annotated[str, typer.Argument(help="The run's id: in full, as lists show it, or a prefix.")]


@commands.command("list")
def list_runs(
    status: Annotated[RunStatus | None, typer.Option(help="Only those with this status.")] = None,
    agent: AgentName = None,
    since: Since = None,
    limit: Limit = 20,
    use_json: JsonFlag = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """List runs, newest first; with --json one object per line."""
    from_then = terminal.moment("--since", since) if since else None

    async def look(db: Database) -> list[RunView]:
        async with db.connection() as connection:
            ids = await views.search_runs(
                connection, status=status, agent=agent, since=from_then, limit=limit
            )
            found = [await views.run_view(connection, run_id) for run_id in ids]
            values = await views.values_of(connection, ids)
        return await clean_runs([view for view in found if view is not None], values=values)

    found = with_database(read_settings(), use_embedded, look)
    if use_json:
        for view in found:
            typer.echo(terminal.as_json(run_record(view)))
        return
    columns = ["id", "made", "status", "agent", "task", "turns", "waiting", "why"]
    terminal.table(columns, map(_row, found), nothing="there are no such runs")


@commands.command()
def show(run_id: RunId, use_json: JsonFlag = False, use_embedded: EmbeddedFlag = False) -> None:
    """Show one run with its transcript and its calls."""
    seen = with_database(read_settings(), use_embedded, _one, run_id)
    if use_json:
        typer.echo(terminal.as_json(_as_json(seen), indent=2))
        return
    run = seen.run
    terminal.facts(
        [
            ("run", str(run.id)),
            ("agent", terminal.line(f"{run.chain} {run.agent_version}", 200)),
            ("requester", terminal.who(run.requester)),
            ("status", _status(run)),
            ("waiting", _waiting(run)),
            ("why", terminal.line(run.cause or "", 500)),
            ("sleeps until", terminal.when(run.sleeping_until)),
            ("paused by", terminal.line(run.paused_by or "", 80) if run.held_up else ""),
            ("made", terminal.when(run.created_at)),
            ("changed", terminal.when(run.updated_at)),
            ("tokens", f"{run.tokens:,}"),
            ("erased", terminal.when(run.erased_at)),
        ]
    )
    typer.echo("")
    for said in seen.messages:
        typer.echo(f"{terminal.when(said.at)} {said.role}: {terminal.line(said.text or '', 4000)}")
        for call in seen.calls:
            if said.role == "assistant" and call.turn == said.turn:
                typer.echo(f"    {_call(call)}")


@commands.command()
def resume(run_id: RunId, use_embedded: EmbeddedFlag = False) -> None:
    """Resume a failed run where it stopped; nothing that was executed is repeated."""

    async def go_on(db: Database) -> UUID:
        found = await _id(db, run_id)
        await resumption.resume_by_operator(db, found, terminal.actor())
        return found

    typer.echo(f"run {with_database(read_settings(), use_embedded, go_on)} goes on")


@dataclass(frozen=True, slots=True)
class _Call:
    view: CallView
    turn: int
    arguments: Any
    answer: str | None


@dataclass(frozen=True, slots=True)
class _Seen:
    run: RunView
    messages: tuple[Message, ...]
    calls: tuple[_Call, ...]


async def _one(db: Database, prefix: str) -> _Seen:
    """Raises SignoffError."""
    found = await _id(db, prefix)
    async with db.connection() as connection:
        seen = await views.run_and_values(connection, found)
        messages = await views.messages(connection, found)
        calls = await views.calls(connection, found)
    if seen is None:
        raise SignoffError(f"there is no run {found}")
    run, values = seen
    hidden = hidden_in_run(values)
    return _Seen(
        await clean_run(run, hidden),
        tuple([await _message(message, hidden) for message in messages]),
        tuple([await _clean_call(call, hidden, values.redact) for call in calls]),
    )


async def _id(db: Database, prefix: str) -> UUID:
    found = await db.read(views.runs_like, id_prefix=prefix)
    if len(found) != 1:
        typed = terminal.line(await clean_text(prefix), 60)
        raise SignoffError(f"{'several runs begin' if found else 'no run begins'} with {typed}")
    return found[0]


async def _message(message: Message, hidden: Hidden) -> Message:
    said = await clean_text(message.text or "", hidden)
    return Message(message.seq, message.role, message.turn, said, message.author, message.at)


async def _clean_call(call: CallView, hidden: Hidden, redact: Sequence[str]) -> _Call:
    answer = await clean_text(call.answer.told, hidden) if call.answer else None
    return _Call(call, call.turn, await clean_value(_parsed(call.raw_arguments), hidden, redact), answer)


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _call(call: _Call) -> str:
    view = call.view
    asked = f" (request {view.request_id})" if view.request_id else ""
    answer = f" -> {terminal.line(call.answer, 500)}" if call.answer else ""
    arguments = terminal.line(json.dumps(call.arguments, ensure_ascii=False), 500)
    return f"{terminal.line(view.tool, 100)}{arguments}: {view.state.value}{asked}{answer}"


def _row(view: RunView) -> list[str]:
    return [
        short_id(view.id),
        terminal.when(view.created_at),
        _status(view),
        terminal.line(view.chain, 80),
        terminal.line(view.task, 80),
        str(view.turn),
        str(view.asked),
        terminal.line(_why(view), 60),
    ]


def _status(run: RunView) -> str:
    standing = run.standing
    return f"ended: {standing.value}" if isinstance(standing, CallOutcome) else standing.value


def _why(run: RunView) -> str:
    if run.held_up:
        return f"paused by {run.paused_by}"
    return f"sleeps until {terminal.when(run.sleeping_until)}" if run.sleeping_until else run.cause or ""


def _waiting(run: RunView) -> str:
    asked = f"{run.asked:,} for people" if run.asked else ""
    below = ", ".join(run.askers_below)
    return terminal.line(f"{asked}, asked by {below}" if below else asked, 200)


def run_record(view: RunView) -> dict[str, Any]:
    """Return a run as JSON output prints it, with times in RFC 3339; masking it is the caller's part."""
    requester = view.requester
    return {
        "id": str(view.id),
        "status": view.shown.value,
        "cause": view.cause,
        "agent": view.agent,
        "label": view.label,
        "above": list(view.above),
        "agent_version": view.agent_version,
        "task": view.task,
        "answer": view.answer,
        "requester": {"team_id": requester.team_id, "user_id": requester.user_id} if requester else None,
        "parent_run_id": _text(view.parent_run_id),
        "turn": view.turn,
        "tokens": view.tokens,
        "waiting": view.asked,
        "in_doubt": view.in_doubt,
        "sleeping_until": terminal.rfc3339(view.sleeping_until),
        "timestamp": terminal.rfc3339(view.created_at),
        "updated_at": terminal.rfc3339(view.updated_at),
        "erased_at": terminal.rfc3339(view.erased_at),
    }


def _as_json(seen: _Seen) -> dict[str, Any]:
    return run_record(seen.run) | {
        "messages": [
            {"seq": m.seq, "turn": m.turn, "role": m.role, "text": m.text, "at": terminal.rfc3339(m.at)}
            for m in seen.messages
        ],
        "calls": [
            {
                "id": str(call.view.id),
                "turn": call.turn,
                "tool": call.view.tool,
                "arguments": call.arguments,
                "state": call.view.state.value,
                "answer": call.answer,
                "request": _text(call.view.request_id),
            }
            for call in seen.calls
        ],
    }


def _text(value: UUID | None) -> str | None:
    return str(value) if value else None
