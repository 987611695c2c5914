"""What `signoff doctor` finds in the database: rights, policy, open work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta

from agent.database import migrations
from agent.database.errors import DatabaseRefuses, DatabaseUnusable
from agent.database.pools import Database
from agent.domain.errors import PolicyError
from agent.domain.policy import Policy
from agent.runtime.agents import LoadError, load_agents
from agent.runtime.checks.policy_lint import lapsed_observations
from agent.store import views
from agent.usecases import failing_sweeps, probe_write, schedules, undelivered
from agent.usecases import policy as policies
from signoff.errors import SignoffError
from slackbot.service.findings import Finding
from slackbot.settings import Settings

DEAD_SHOWN = 5

SILENCE = timedelta(minutes=15)
"""Such a gap in events means that the service was stopped, or the database is a restored copy."""


async def find_database(configured: Settings, database: Database | None, url: str | None) -> Finding:
    """Report whether the database answers, stores and has a current schema; if not, what to do about it."""
    if database is None or url is None:
        return Finding("database", False, "DATABASE_URL is not set", "set it, or use --embedded")
    schema, role = configured.db_schema, configured.db_role
    try:
        behind = await asyncio.to_thread(migrations.pending, url, schema, role=role)
    except DatabaseUnusable as error:
        return Finding("database", False, error.detail, error.remedy or _answer_remedy(error))
    except SignoffError as error:
        return Finding("database", False, str(error), _answer_remedy(error))
    if behind:
        return Finding("database", False, "the schema is not current", "run `signoff db upgrade`")
    try:
        async with database.connection() as connection:
            version = (await connection.exec_driver_sql("SHOW server_version")).scalar_one()
        await probe_write.run(database)
    except DatabaseRefuses as error:
        remedy = "free its disk, let it write, or grant the rights again; see the runbook"
        return Finding("database", False, str(error), remedy)
    except SignoffError as error:
        return Finding(
            "database", False, str(error), "let its login use the service's role: `signoff db upgrade`"
        )
    return Finding("database", True, f"PostgreSQL {version}, schema {schema!r} is current")


_ANSWERS = {
    "pg_hba.conf": "let pg_hba.conf of the server admit this machine and login",
    "starting up": "the server is starting: try again",
    "shutting down": "the server is stopping: start it again",
    "recovery mode": "the server is recovering from a crash: try again",
    "accepting connections": "let the server, or that database, accept connections",
    "too many connections for": "raise the CONNECTION LIMIT of that login or database, or close other connections",
    "too many": "raise max_connections of the server, or close other connections",
    "connection slots": "raise max_connections of the server, or close other connections",
    "permission denied": "grant that login CONNECT on the database",
    "not permitted to log in": "let that role log in (ALTER ROLE … LOGIN), or correct it in DATABASE_URL",
    "authentication failed": "correct login and password in DATABASE_URL",
    'role "': "create that login, or correct it in DATABASE_URL",
    'database "': "create that database, or correct its name in DATABASE_URL",
}
"""Remedies by words of a server that answers and lets nobody in; a code comes only with statements.

The first that fits: many answers name a database or a role, too.
"""


def _answer_remedy(error: SignoffError) -> str:
    _, is_answer, answer = str(error).partition("FATAL:")
    if not is_answer:
        return "start the server, or correct host and port in DATABASE_URL; a firewall may be in between"
    found = (remedy for words, remedy in _ANSWERS.items() if words in answer)
    return next(found, "the server answers: fix what it says, or DATABASE_URL")


async def find_policy(configured: Settings, file: Policy, database: Database) -> tuple[Finding, Policy]:
    """Returns the policy to look at, too: the one in force, or the file if it cannot be loaded."""
    stored = await policies.in_force(database)
    if stored is None:
        return Finding("policy", True, "none is in force; the first start puts the file in force"), file
    detail = f"policy {stored.epoch} is in force, applied by {stored.by}"
    try:
        policy = configured.read_policy(stored.source, f"policy {stored.epoch}")
    except PolicyError as error:
        remedy = (
            "update Signoff here, or fix the settings; until then this process evaluates and claims nothing"
        )
        return Finding("policy", False, f"{detail}, and cannot be loaded: {error}", remedy), file
    if policy.digest != file.digest:
        detail += f"; {configured.checkpoints} differs from it (`signoff policy apply` puts a file in force)"
    detail = "; ".join(
        [detail, *(sentence for _, sentence in lapsed_observations(policy, datetime.now(UTC)))]
    )
    return Finding("policy", True, detail), policy


async def find_work(configured: Settings, database: Database) -> AsyncIterator[Finding]:
    """Yield findings about the backlog, messages that were given up, schedules, and sweeps that fail."""
    yield await _backlog(database)
    yield await _dead(database)
    yield await _schedules(configured, database)
    if failing := await failing_sweeps.list_failing(database):
        yield _sweeps(failing)


async def _backlog(database: Database) -> Finding:
    """Work that the next start begins. A restored database may hold work already done."""
    found = await database.read(views.backlog)
    begins = {
        "calls that run": found.calls - found.outdated,
        "approvals that are too old, so people are asked again": found.outdated,
        "approvals that can be claimed": found.approvals,
        "attempts that become in doubt": found.attempts,
        "runs that continue": found.runs,
        "messages that go out": found.messages,
    }
    detail = ", ".join(f"{what}: {number:,}" for what, number in begins.items() if number)
    if not detail or found.latest is None:
        return Finding("open work", True, "none; the next start begins nothing")
    silence = found.now - found.latest
    detail = f"the next start begins: {detail}; last recorded at {found.latest:%Y-%m-%d %H:%M:%S} UTC"
    if found.paused:
        return Finding("open work", True, f"{detail}; everything is paused, so nothing runs")
    if silence < SILENCE:
        return Finding("open work", True, detail)
    remedy = (
        "if this is a restored backup, run `signoff pause` before the start, and check what was done since"
    )
    return Finding("open work", False, detail, remedy)


async def _dead(database: Database) -> Finding:
    found = await undelivered.list_dead(database, DEAD_SHOWN + 1)
    if not found:
        return Finding("messages", True, "none was given up")
    named = "; ".join(f"{each.kind} in {each.channel_id}: {each.error}" for each in found[:DEAD_SHOWN])
    more = "; and more" if len(found) > DEAD_SHOWN else ""
    remedy = "fix the cause, then `signoff deliveries retry --all`; `signoff deliveries` lists them"
    return Finding("messages", False, f"Slack refused {named}{more}", remedy)


async def _schedules(configured: Settings, database: Database) -> Finding:
    """A schedule whose agent is loaded nowhere starts nothing."""
    if not (named := await schedules.unknown_agents(database, [])):
        return Finding("schedules", True, "there are none")
    try:
        known = {agent.name for agent in load_agents(configured.agents)}
    except LoadError as error:
        return Finding("schedules", False, f"the agents cannot be loaded: {error}", "fix SIGNOFF_AGENTS")
    if unknown := [name for name in named if name not in known]:
        remedy = "load its module (SIGNOFF_AGENTS), or `signoff schedule remove` it"
        return Finding("schedules", False, f"agents that are not loaded: {', '.join(unknown)}", remedy)
    return Finding("schedules", True, f"they start {', '.join(named)}")


def _sweeps(failing: Mapping[str, str]) -> Finding:
    named = ", ".join(f"{name} ({error})" for name, error in sorted(failing.items()))
    remedy = "look for `sweep.failed` in the schedulers' logs; what works again is not listed a minute later"
    return Finding("sweeps", False, f"failed three times running: {named}", remedy)
