"""`signoff requests`: show and withdraw requests. It cannot decide them, because a command line identifies nobody."""

from __future__ import annotations

import asyncio
from typing import Annotated, NoReturn
from uuid import UUID

import typer

from agent.database.pools import Database
from agent.domain.request import ApprovalState, RequestStatus
from agent.domain.request_view import RequestView
from agent.domain.short_ids import short_id
from agent.domain.spelling import meant
from agent.domain.together import with_others
from agent.store import views
from agent.usecases import requests
from signoff.errors import SignoffError
from slackbot.cli import terminal
from slackbot.cli.cli_context import EmbeddedFlag, read_settings, with_database
from slackbot.cli.command_group import ListByDefault
from slackbot.masking import clean_text, clean_view
from slackbot.settings import Settings

commands = typer.Typer(
    cls=ListByDefault,
    help="List, show or withdraw requests.\n\nWithout a command it lists, with the options of `list`.",
)

JsonFlag = Annotated[bool, typer.Option("--json", help="JSON instead of a table, in the API's format.")]
RequestId = Annotated[str, typer.Argument(help="The request's id: in full, as cards show it, or a prefix.")]


def _named_status(word: str) -> RequestStatus:
    """Raises typer.BadParameter."""
    for status in RequestStatus:
        if word in (status.word, status.value):
            return status
    words = [status.word for status in RequestStatus]
    raise typer.BadParameter(f"{word!r} is none of {', '.join(words)}{meant(word, words)}")


Status = Annotated[
    RequestStatus | None,
    typer.Option(
        parser=_named_status,
        metavar=f"[{'|'.join(status.word for status in RequestStatus)}]",
        help="Only those with this status.",
    ),
]
AgentName = Annotated[str | None, typer.Option(help="Only those of this agent.")]
Since = Annotated[
    str | None, typer.Option(help="Only those created since: a date, a time, or how long ago (7d).")
]
Limit = Annotated[int, typer.Option(help="How many at most, newest first.", min=1, max=1000)]

NOT_HERE = (
    "nobody decides on the command line: it does not know who you are. "
    "Decide on the card in Slack, on the page, or through the API with a key that has an owner."
)


@commands.command("list")
def list_requests(
    status: Status = None,
    agent: AgentName = None,
    since: Since = None,
    limit: Limit = 20,
    use_json: JsonFlag = False,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """List requests, newest first; with --json one object per line."""
    configured = read_settings()
    from_then = terminal.moment("--since", since) if since else None

    async def look(db: Database) -> list[RequestView]:
        async with db.connection() as connection:
            ids = await views.search_requests(
                connection, status=status, agent=agent, since=from_then, limit=limit
            )
            found = await views.request_views(connection, ids)
        return await asyncio.gather(*(clean_view(view) for view in found))

    found = with_database(configured, use_embedded, look)
    if use_json:
        for view in found:
            typer.echo(terminal.as_json(review(configured, view)))
        return
    columns = ["id", "made", "status", "agent", "risk", "what", "votes", "decided by"]
    terminal.table(columns, map(_row, found), nothing="there are no such requests")


@commands.command()
def show(request_id: RequestId, use_json: JsonFlag = False, use_embedded: EmbeddedFlag = False) -> None:
    """Show one request in full."""
    from slackbot.cards import details_text  # noqa: PLC0415 - Block Kit's models are slow to import

    configured = read_settings()
    view = with_database(configured, use_embedded, _one, request_id)
    if use_json:
        typer.echo(terminal.as_json(review(configured, view), indent=2))
        return
    decision, execution = view.decision, view.execution
    terminal.facts(
        [
            ("request", str(view.id)),
            ("agent", terminal.line(f"{view.chain} {view.agent_version}", 200)),
            ("requester", "anyone" if view.behalf.anyone else terminal.who(view.behalf.requester)),
            ("checkpoint", terminal.line(f"{view.checkpoint_id} ({view.risk.value})", 200)),
            ("reviewers", terminal.line(" ".join(view.approvers), 500)),
            ("made", terminal.when(view.created_at)),
            ("expires", terminal.when(view.expires_at)),
            ("status", _status(view)),
            (
                "decided",
                f"{terminal.when(decision.at)} {terminal.people(decision.deciders)}" if decision else "",
            ),
            ("together", _together(view)),
            ("execution", execution.status.value if execution else ""),
            ("digest", view.digest.hex()),
            ("erased", terminal.when(view.erased_at)),
        ]
    )
    typer.echo(f"\n{details_text(view)}")


@commands.command()
def withdraw(
    request_id: RequestId,
    reason: Annotated[str | None, typer.Option(help="The reason, for the agent and the audit log.")] = None,
    use_embedded: EmbeddedFlag = False,
) -> None:
    """Withdraw a waiting request: nobody can decide it any more, and nothing is executed."""

    async def withdraw_by_operator(db: Database) -> tuple[UUID, bool]:
        found = await _id(db, request_id)
        stated = reason or "withdrawn by an operator"
        return found, await requests.withdraw(db, found, None, stated, principal=terminal.actor())

    found, withdrawn = with_database(read_settings(), use_embedded, withdraw_by_operator)
    if not withdrawn:
        raise SignoffError(f"request {found} already has an outcome; there is nothing to withdraw")
    typer.echo(f"request {found} is withdrawn")


@commands.command(hidden=True, context_settings={"ignore_unknown_options": True})
def approve(rest: Annotated[list[str] | None, typer.Argument()] = None) -> NoReturn:  # noqa: ARG001
    """Not possible here."""
    raise SignoffError(NOT_HERE)


@commands.command(hidden=True, context_settings={"ignore_unknown_options": True})
def reject(rest: Annotated[list[str] | None, typer.Argument()] = None) -> NoReturn:  # noqa: ARG001
    """Not possible here."""
    raise SignoffError(NOT_HERE)


def review(configured: Settings, view: RequestView) -> dict[str, object]:
    """Return a request as the API shows it, ready for JSON; masking it first is the caller's part."""
    from slackbot.web.api.shapes import ReviewOut, page_url  # noqa: PLC0415 - FastAPI is slow to import

    address = configured.public_url
    return ReviewOut.of(view, url=page_url(address, view.id)).model_dump(mode="json")


async def _one(db: Database, request_id: str) -> RequestView:
    found = await _id(db, request_id)
    view = await db.read(views.request_view, found)
    if view is None:
        raise SignoffError(f"there is no request {found}")
    return await clean_view(view)


async def _id(db: Database, prefix: str) -> UUID:
    found = await db.read(views.requests_like, id_prefix=prefix)
    if len(found) != 1:
        stated = terminal.line(await clean_text(prefix), 60)
        why = "several requests begin" if found else "no request begins"
        raise SignoffError(f"{why} with {stated}")
    return found[0]


def _row(view: RequestView) -> list[str]:
    return [
        short_id(view.id),
        terminal.when(view.created_at),
        _status(view),
        terminal.line(view.chain, 80),
        view.risk.value,
        terminal.line(view.description, 80),
        f"{view.approvals}/{view.approvals_required}",
        terminal.people(view.decision.deciders, 3) if view.decision else "",
    ]


def _together(view: RequestView) -> str:
    """Each vote that came in one form with others, and the form."""
    return "\n".join(
        f"{terminal.who(vote.person)} {how}, {vote.together}"
        for vote in view.votes
        if (how := with_others(vote.others))
    )


def _status(view: RequestView) -> str:
    became = f", {view.standing.value}" if isinstance(view.standing, ApprovalState) else ""
    return f"{view.status.word}{became}"
