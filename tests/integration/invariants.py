"""Invariants of the database at every moment, in SQL, independent of the code."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from agent.database.pools import Database
from agent.runtime.executor import Look
from agent.usecases import audit

# Each query returns rows that break its rule.
RULES = {
    "a request has an outcome exactly if it has that decision": """
        SELECT r.id FROM approval_request AS r LEFT JOIN decision AS d ON d.request_id = r.id
        WHERE r.status <> coalesce(d.outcome, 'waiting')""",
    "an approval has its quorum of distinct people, none of them the requester, before the deadline": """
        SELECT r.id FROM approval_request AS r JOIN decision AS d ON d.request_id = r.id
        WHERE d.outcome = 'approved' AND (d.decided_at >= r.expires_at OR r.approvals_required > (
            SELECT count(DISTINCT (v.team_id, v.user_id)) FROM vote AS v
            WHERE v.request_id = r.id AND v.superseded_by IS NULL AND v.verdict = 'approve'
              AND v.revision = d.revision
              AND (v.team_id, v.user_id) IS DISTINCT FROM (r.requester_team_id, r.requester_user_id)))""",
    "nothing runs but what was let through or approved, byte for byte, before it began, and not void": """
        SELECT e.id FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id
        LEFT JOIN decision AS d ON d.request_id = e.request_id
        LEFT JOIN approval_request AS r ON r.id = e.request_id
        WHERE CASE WHEN e.request_id IS NULL
              THEN e.digest <> c.digest OR EXISTS (
                  SELECT 1 FROM approval_request WHERE call_id = c.id AND created_at < e.started_at)
              ELSE d.outcome <> 'approved' OR d.digest <> e.digest OR d.decided_at > e.started_at
                   OR r.call_id <> c.id OR coalesce(r.voided_at < e.started_at, false) END""",
    "nothing begins by a void approval, and its call was asked about again": """
        SELECT r.id FROM approval_request AS r JOIN tool_call AS c ON c.id = r.call_id
        WHERE r.voided_at IS NOT NULL AND (
            EXISTS (SELECT 1 FROM execution AS e WHERE e.request_id = r.id AND e.started_at > r.voided_at)
            OR c.ask_no <= r.ask_no)""",
    "an attempt is made by the executor of its call": """
        SELECT e.id FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id WHERE e.executor <> c.executor""",
    "a call is asked exactly while its request waits": """
        SELECT c.id FROM tool_call AS c
        LEFT JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
        WHERE (c.state = 'asked') <> coalesce(r.status = 'waiting', false)""",
    "only the latest question about a call can wait": """
        SELECT r.id FROM approval_request AS r JOIN tool_call AS c ON c.id = r.call_id
        WHERE r.status = 'waiting' AND r.ask_no <> c.ask_no""",
    "a call is claimed exactly while it has an open attempt": """
        SELECT c.id FROM tool_call AS c WHERE (c.state = 'claimed') <> EXISTS (
            SELECT 1 FROM execution AS e WHERE e.call_id = c.id AND e.status = 'claimed')""",
    "a call has at most one open attempt": """
        SELECT call_id FROM execution WHERE status = 'claimed' GROUP BY call_id HAVING count(*) > 1""",
    "a call in doubt has exactly one attempt that a person can settle": """
        SELECT c.id FROM tool_call AS c WHERE (c.state = 'in_doubt')::int <> (
            SELECT count(*) FROM execution AS e LEFT JOIN settlement AS s ON s.execution_id = e.id
            WHERE e.call_id = c.id AND e.status = 'in_doubt' AND s.execution_id IS NULL)""",
    "Retry has the quorum of its request": """
        SELECT s.execution_id FROM settlement AS s JOIN execution AS e ON e.id = s.execution_id
        JOIN approval_request AS r ON r.id = e.request_id
        WHERE s.verdict = 'retry' AND r.approvals_required > (
            SELECT count(*) FROM (
                SELECT s.team_id, s.user_id UNION
                SELECT v.team_id, v.user_id FROM retry_vote AS v WHERE v.execution_id = e.id) AS people)""",
    "a call that repeats nothing succeeds once": """
        SELECT call_id FROM execution WHERE status = 'succeeded' GROUP BY call_id HAVING count(*) > 1""",
    "a run waits for as many calls as are unanswered and block it": """
        SELECT a.id FROM agent_run AS a WHERE a.awaiting_calls <> (
            SELECT count(*) FROM tool_call AS c WHERE c.run_id = a.id AND c.blocking AND c.state <> 'answered')""",
    "a run that goes on has something to hear or something to wait for": """
        SELECT id FROM agent_run WHERE status IN ('working', 'pending_approval')
          AND inputs = heard AND awaiting_calls = 0""",
    "a run is parked while a call that blocks it is asked about, and for nothing else": """
        SELECT a.id FROM agent_run AS a WHERE (a.status = 'working' AND EXISTS (
            SELECT 1 FROM tool_call AS c WHERE c.run_id = a.id AND c.blocking AND c.state = 'asked'))
           OR (a.status = 'pending_approval' AND a.awaiting_calls = 0)""",
    "nobody is asked for a run that has ended, but its requester who asked again": """
        SELECT r.id FROM approval_request AS r JOIN agent_run AS a ON a.id = r.run_id
        JOIN tool_call AS c ON c.id = r.call_id
        WHERE r.status = 'waiting' AND a.status IN ('denied', 'failed', 'cancelled') AND c.repeats IS NULL""",
    "nothing is left to run in a run that has ended, but what a person then wanted again": """
        SELECT c.id FROM tool_call AS c JOIN agent_run AS a ON a.id = c.run_id
        WHERE c.state IN ('new', 'ready') AND a.status IN ('denied', 'failed', 'cancelled') AND c.repeats IS NULL
          AND NOT EXISTS (SELECT 1 FROM execution AS e JOIN settlement AS s ON s.execution_id = e.id
                          WHERE e.call_id = c.id AND s.verdict = 'retry')""",
    "the record has every vote, decision, attempt and settlement, once": """
        SELECT kind FROM (VALUES
            ('vote', (SELECT count(*) FROM vote), ARRAY['vote.cast']),
            ('decision', (SELECT count(*) FROM decision),
             ARRAY['request.decided', 'request.expired', 'request.withdrawn']),
            ('request', (SELECT count(*) FROM approval_request), ARRAY['request.opened']),
            ('attempt', (SELECT count(*) FROM execution), ARRAY['execution.claimed']),
            ('retry vote', (SELECT count(*) FROM retry_vote), ARRAY['execution.retry_wanted']),
            ('settlement', (SELECT count(*) FROM settlement), ARRAY['execution.settled']),
            ('use of a grant, in two chains', (SELECT 2 * count(*) FROM grant_use), ARRAY['grant.used']),
            ('end of a grant', (SELECT count(*) FROM approval_grant WHERE ended_at IS NOT NULL), ARRAY['grant.ended'])
        ) AS counted (kind, rows, events)
        WHERE rows <> (SELECT count(*) FROM audit_event WHERE event = ANY(events))""",
    "a fact has the time of its event": """
        SELECT kind FROM (
            SELECT 'request:' || id AS subject, created_at AS at, 'request.opened' AS kind FROM approval_request
            UNION ALL SELECT 'request:' || request_id, created_at, 'request.opened' FROM request_revision WHERE n = 1
            UNION ALL SELECT 'request:' || request_id, created_at, 'request.edited' FROM request_revision WHERE n > 1
            UNION ALL SELECT 'request:' || request_id, created_at, 'vote.cast' FROM vote
            UNION ALL SELECT 'request:' || id, escalated_at, 'request.escalated' FROM approval_request
            UNION ALL SELECT 'request:' || id, voided_at, 'request.reopened' FROM approval_request
            UNION ALL SELECT 'request:' || request_id, decided_at,
                CASE WHEN outcome = 'expired' THEN 'request.expired' WHEN outcome = 'cancelled' THEN 'request.withdrawn'
                     ELSE 'request.decided' END FROM decision
            UNION ALL SELECT 'request:' || request_id, ended_at, 'grant.ended' FROM approval_grant
            UNION ALL SELECT 'request:' || grant_id, used_at, 'grant.used' FROM grant_use
            UNION ALL SELECT 'request:' || r.id, c.lapsed_at, 'approval.lapsed' FROM tool_call AS c
                JOIN approval_request AS r ON r.call_id = c.id AND r.ask_no = c.ask_no
            UNION ALL SELECT 'key:' || name, created_at, 'key.created' FROM api_key
            UNION ALL SELECT 'key:' || name, revoked_at, 'key.revoked' FROM api_key
            UNION ALL SELECT 'webhook:' || name, created_at, 'webhook.added' FROM webhook
            UNION ALL SELECT 'webhook:' || name, removed_at, 'webhook.removed' FROM webhook
            UNION ALL SELECT 'schedule:' || id, created_at, 'schedule.added' FROM schedule
            UNION ALL SELECT 'policy', created_at, 'policy.applied' FROM policy
            UNION ALL SELECT 'pause', created_at, 'executions.paused' FROM pause
            UNION ALL SELECT t.subject, t.at, t.kind FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id
                LEFT JOIN settlement AS s ON s.execution_id = e.id LEFT JOIN retry_vote AS v ON v.execution_id = e.id
                CROSS JOIN LATERAL (VALUES
                    (e.started_at, 'execution.claimed'), (e.finished_at, 'execution.' || e.status),
                    (s.created_at, 'execution.settled'), (v.created_at, 'execution.retry_wanted')) AS moment (at, kind)
                CROSS JOIN LATERAL (SELECT coalesce('request:' || e.request_id, 'run:' || c.run_id) AS subject,
                                           moment.at, moment.kind) AS t
        ) AS fact
        WHERE at IS NOT NULL AND NOT EXISTS (
            SELECT FROM audit_event AS e WHERE (e.subject, e.at, e.event) = (fact.subject, fact.at, fact.kind))""",
    "the events of a chain are in the order of their times": """
        SELECT earlier.subject FROM audit_event AS earlier JOIN audit_event AS later
        ON later.subject = earlier.subject AND later.seq = earlier.seq + 1 WHERE later.at < earlier.at""",
    "a grant is used as often as it counts, within what it allows": """
        SELECT g.request_id FROM approval_grant AS g
        LEFT JOIN LATERAL (SELECT count(*) AS uses, coalesce(sum(amount), 0) AS amount FROM grant_use
                           WHERE grant_id = g.request_id) AS used ON true
        WHERE (g.uses, g.used_sum) <> (used.uses, used.amount) OR g.uses > g.max_uses OR g.used_sum > g.max_sum""",
    "a use is of a grant that people approved, and its call has begun": """
        SELECT u.key FROM grant_use AS u LEFT JOIN decision AS d ON d.request_id = u.grant_id
        WHERE d.outcome IS DISTINCT FROM 'approved' OR d.decided_at > u.used_at OR (
            u.key LIKE 'call:%' AND NOT EXISTS (
                SELECT 1 FROM execution AS e WHERE 'call:' || e.call_id = u.key AND e.digest = u.digest))""",
    "the sums of a limit are those of its settled uses": """
        SELECT limit_name FROM (
            SELECT limit_name, subject, seconds, since, amount, uses FROM limit_sum
            UNION ALL
            SELECT u.limit_name, u.subject, width.seconds,
                   date_bin(make_interval(secs => width.seconds), u.at, 'epoch'), -u.amount, -1
            FROM limit_use AS u CROSS JOIN (VALUES (60), (3600), (86400)) AS width (seconds) WHERE u.settled) AS parts
        GROUP BY limit_name, subject, seconds, since HAVING sum(amount) <> 0 OR sum(uses) <> 0""",
    "a request has a card that is placed or on its way, or shares one": """
        SELECT r.id FROM approval_request AS r WHERE NOT EXISTS (
            SELECT 1 FROM delivery AS d WHERE d.request_id = r.id AND d.kind = 'card'
        ) AND NOT EXISTS (
            SELECT 1 FROM card_place AS p JOIN delivery AS d ON d.kind = 'digest' AND d.agent = p.digest
             AND d.team_id = p.team_id AND d.channel_id = p.channel_id
            WHERE p.request_id = r.id AND p.folded)""",
}
_ALL = text(
    " UNION ALL ".join(
        f"SELECT '{rule}' AS rule, found::text AS found FROM ({query}) AS q (found)"
        for rule, query in RULES.items()
    )
)
_RUNNABLE = text("""
SELECT 'run', id::text FROM agent_run
WHERE inputs > heard AND status IN ('working', 'pending_approval')
  AND (lease_until IS NULL OR lease_until <= clock_timestamp())
UNION ALL
SELECT 'call', id::text FROM tool_call
WHERE run_id IS NOT NULL AND state IN ('new', 'ready', 'refused') AND (executor = 'here' OR state <> 'ready')
""")


async def broken(db: Database) -> list[tuple[Any, ...]]:
    async with db.connection() as connection:
        found: list[tuple[Any, ...]] = [tuple(row) for row in (await connection.execute(_ALL)).all()]
        runnable = {tuple(row) for row in (await connection.execute(_RUNNABLE)).all()}
        agents = (await connection.execute(text("SELECT DISTINCT agent FROM agent_run"))).scalars().all()
    due = {(each.kind.value, str(each.key)) for each in await Look(db, lambda: agents, 10**6).find()}
    found += [("what is runnable is found by a look", *each) for each in runnable - due]
    _, problems = await audit.find_problems(db)
    return found + [("every chain holds", str(problem)) for problem in problems]
