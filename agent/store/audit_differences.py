"""Compare rows of consent with their audit events; either may be altered or missing.

The service's own login may append any event. So nothing of a detail is cast or written out, which fails for some
values: its members are compared as JSON, where 1.0 is 1 and "1" is not. Only a string or a number is shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Row, TextClause, text

from agent.database.transaction import Connection, fetch
from agent.domain.api_keys import KeyTerms
from agent.domain.audit import ChainProblem
from agent.domain.grants import Grant
from agent.store import consent_terms
from agent.store.rows import row_as
from signoff.values import Action

PAGE = 1000
"""Rows in memory at a time."""


async def find(connection: Connection, compared: str) -> list[ChainProblem]:
    """One of `COMPARISONS`."""
    return await COMPARISONS[compared](connection)


async def _differing(statement: TextClause, connection: Connection) -> list[ChainProblem]:
    """Each row of the result is a problem."""
    rows = await connection.execute(statement)
    return [ChainProblem(row.subject, row.seq, row.what) for row in rows]


async def _pages(connection: Connection, statement: TextClause) -> AsyncIterator[Row[Any]]:
    """Rows in the order of their ids."""
    after = UUID(int=0)
    while rows := await fetch(connection, statement, after=after, page=PAGE):
        for row in rows:
            yield row
        after = rows[-1].id


async def _with_other_terms(
    statement: TextClause, digest: Callable[[Row[Any]], str], connection: Connection
) -> list[ChainProblem]:
    """Rows whose digest is not that of their latest event, or cannot be made."""
    found = []
    async for row in _pages(connection, statement):
        try:
            altered = digest(row) != row.terms_recorded
        except (AttributeError, KeyError, TypeError, ValueError):
            altered = True
        if altered:
            found.append(ChainProblem(row.subject, row.seq, row.what))
    return found


async def _other_grants(connection: Connection) -> list[ChainProblem]:
    """Grants that do not say what their approved action says."""
    found = []
    async for row in _pages(connection, _GRANTS):
        try:
            allowed = Grant.from_action(Action.from_canonical(row.action))
            kind = allowed.kind
            approved: tuple[object, ...] = (
                *(kind.agent, kind.tool, kind.checkpoint, [*kind.above, kind.agent]),
                *(allowed.until, allowed.max_uses, allowed.max_sum),
            )
            stored: tuple[object, ...] = (
                *(row.agent, row.tool, row.checkpoint_id, row.agents),
                *(row.until, row.max_uses, row.max_sum),
            )
            altered = approved != stored
        except ValueError:
            altered = True
        if altered:
            found.append(ChainProblem(row.subject, 0, "the grant is not the one that was approved"))
    return found


_SUBJECTS = text("""
SELECT s.subject, 0 AS seq, 'has no chain' AS what
FROM (SELECT 'request:' || id AS subject FROM approval_request UNION ALL SELECT 'run:' || id FROM agent_run) AS s
LEFT JOIN audit_head AS h ON h.subject = s.subject WHERE coalesce(h.seq, 0) = 0
UNION ALL
SELECT e.subject, e.seq, 'tells of a run that is gone'
FROM audit_event AS e LEFT JOIN agent_run AS r ON 'run:' || r.id = e.subject
WHERE e.event = 'run.started' AND r.id IS NULL
""")
# An edit's event names the revision that was edited.
_REVISIONS = text("""
WITH events AS (
    SELECT subject, seq, actor, event, detail -> 'digest' AS digest,
           CASE event WHEN 'request.opened' THEN CAST('0' AS jsonb) ELSE detail -> 'revision' END AS before
    FROM audit_event WHERE event IN ('request.opened', 'request.edited')
), recorded AS (
    SELECT *, row_number() OVER (PARTITION BY subject, before ORDER BY seq) AS nth FROM events
), stored AS (
    SELECT 'request:' || v.request_id AS subject, v.n, to_jsonb(v.n - 1) AS before,
           to_jsonb(encode(v.digest, 'hex')) AS digest, r.revision,
           v.erased_at IS NULL AND v.digest <> sha256(v.action) AS altered,
           'slack:' || v.editor_team_id || '/' || v.editor_user_id AS editor
    FROM request_revision AS v JOIN approval_request AS r ON r.id = v.request_id
)
SELECT subject, coalesce(recorded.seq, 0) AS seq,
       CASE WHEN stored.n IS NULL AND jsonb_typeof(before) = 'number'
            THEN 'tells of the revision after ' || left(CAST(before AS text), 20) || ', which is gone'
            WHEN stored.n IS NULL THEN 'tells of a revision that cannot be read'
            WHEN recorded.seq IS NULL THEN 'revision ' || n || ' is not on record'
            WHEN nth > 1 THEN 'tells of revision ' || n || ' again'
            ELSE 'revision ' || n || ' is not what is stored' END AS what
FROM recorded FULL JOIN stored USING (subject, before)
WHERE recorded.seq IS NULL OR stored.n IS NULL OR recorded.digest IS DISTINCT FROM stored.digest OR altered
   OR n > revision OR nth > 1 OR (event = 'request.edited' AND editor IS DISTINCT FROM actor)
""")
_VOTES = text("""
WITH recorded AS (
    SELECT subject, actor, detail -> 'verdict' AS verdict, detail -> 'revision' AS revision,
           count(*) AS votes, max(seq) AS seq
    FROM audit_event WHERE event = 'vote.cast' GROUP BY 1, 2, 3, 4
), stored AS (
    SELECT 'request:' || request_id AS subject, 'slack:' || team_id || '/' || user_id AS actor,
           to_jsonb(CAST(verdict AS text)) AS verdict, to_jsonb(revision) AS revision, count(*) AS votes
    FROM vote GROUP BY 1, 2, 3, 4
)
SELECT subject, coalesce(recorded.seq, 0) AS seq,
       left(actor, 100) || ': ' || coalesce(recorded.votes, 0) || ' votes "'
           || CASE jsonb_typeof(verdict) WHEN 'string' THEN left(verdict #>> '{}', 20) ELSE '?' END || '" on revision '
           || CASE jsonb_typeof(revision) WHEN 'number' THEN left(CAST(revision AS text), 20) ELSE '?' END
           || ' are on record, ' || coalesce(stored.votes, 0) || ' are stored' AS what
FROM recorded FULL JOIN stored USING (subject, actor, verdict, revision)
WHERE recorded.votes IS DISTINCT FROM stored.votes
""")
# Only a later vote of the same person on the same request supersedes a vote.
_LIVE_VOTES = text("""
SELECT 'request:' || v.request_id AS subject, 0 AS seq, 'a vote is put aside that no later one replaced' AS what
FROM vote AS v LEFT JOIN vote AS later ON later.id = v.superseded_by AND later.request_id = v.request_id
     AND (later.team_id, later.user_id) = (v.team_id, v.user_id) AND later.id > v.id
WHERE v.superseded_by IS NOT NULL AND later.id IS NULL
""")
_DECISIONS = text("""
WITH recorded AS (
    SELECT subject, seq, actor, detail, row_number() OVER (PARTITION BY subject ORDER BY seq) AS nth FROM audit_event
    WHERE event IN ('request.decided', 'request.expired', 'request.withdrawn')
), stored AS (
    SELECT 'request:' || r.id AS subject, r.status::text AS status, d.outcome::text AS outcome, d.revision,
           encode(d.digest, 'hex') AS digest, 'slack:' || d.team_id || '/' || d.user_id AS person
    FROM approval_request AS r LEFT JOIN decision AS d ON d.request_id = r.id
    WHERE r.status <> 'waiting' OR d.request_id IS NOT NULL
)
SELECT subject, coalesce(recorded.seq, 0) AS seq,
       CASE WHEN recorded.seq IS NULL THEN 'its decision is not on record'
            WHEN stored.status IS NULL THEN 'tells of a decision that is gone'
            WHEN nth > 1 THEN 'tells of a second decision'
            ELSE 'is not the decision that is stored' END AS what
FROM recorded FULL JOIN stored USING (subject)
WHERE recorded.seq IS NULL OR stored.status IS NULL OR nth > 1 OR stored.outcome IS DISTINCT FROM stored.status
   OR detail -> 'outcome' IS DISTINCT FROM to_jsonb(outcome)
   OR detail -> 'revision' IS DISTINCT FROM to_jsonb(stored.revision)
   OR detail -> 'digest' IS DISTINCT FROM to_jsonb(stored.digest)
   OR coalesce(person <> actor, actor LIKE 'slack:%')
""")
_EXECUTIONS = text("""
WITH recorded AS (
    SELECT subject, seq, detail -> 'execution' AS id, detail -> 'attempt' AS attempt, detail -> 'digest' AS digest,
           row_number() OVER (PARTITION BY subject, detail -> 'execution' ORDER BY seq) AS nth
    FROM audit_event WHERE event = 'execution.claimed'
), ended AS (
    SELECT DISTINCT ON (subject, id) subject, detail -> 'execution' AS id, seq, event FROM audit_event
    WHERE event IN ('execution.succeeded', 'execution.failed', 'execution.in_doubt') ORDER BY 1, 2, seq DESC
), stored AS (
    SELECT coalesce('request:' || e.request_id, 'run:' || c.run_id) AS subject, to_jsonb(CAST(e.id AS text)) AS id,
           to_jsonb(e.attempt) AS attempt, to_jsonb(encode(e.digest, 'hex')) AS digest, e.status
    FROM execution AS e LEFT JOIN tool_call AS c ON c.id = e.call_id
)
SELECT subject, coalesce(recorded.seq, ended.seq, 0) AS seq,
       CASE WHEN stored.status IS NULL THEN 'tells of an attempt that is gone'
            WHEN recorded.seq IS NULL THEN 'an attempt is not on record'
            WHEN nth > 1 THEN 'tells of an attempt again'
            ELSE 'is not the attempt that is stored' END AS what
FROM recorded FULL JOIN stored USING (subject, id) FULL JOIN ended USING (subject, id)
WHERE recorded.seq IS NULL OR stored.status IS NULL OR nth > 1
   OR recorded.attempt IS DISTINCT FROM stored.attempt OR recorded.digest IS DISTINCT FROM stored.digest
   OR coalesce(ended.event, 'execution.claimed') <> 'execution.' || stored.status
""")
_SETTLEMENTS = text("""
WITH events AS (
    SELECT subject, seq, event, actor, detail -> 'execution' AS id,
           CASE event WHEN 'execution.settled' THEN detail -> 'verdict' ELSE CAST('"retry"' AS jsonb) END AS verdict
    FROM audit_event WHERE event IN ('execution.settled', 'execution.retry_wanted')
), recorded AS (
    SELECT *, row_number() OVER (PARTITION BY subject, event, actor, id, verdict ORDER BY seq) AS nth FROM events
), said AS (
    SELECT 'execution.settled' AS event, execution_id, team_id, user_id, verdict::text AS verdict FROM settlement
    UNION ALL
    SELECT 'execution.retry_wanted', execution_id, team_id, user_id, 'retry' FROM retry_vote
), stored AS (
    SELECT coalesce('request:' || e.request_id, 'run:' || c.run_id) AS subject, said.event,
           'slack:' || said.team_id || '/' || said.user_id AS actor, to_jsonb(CAST(e.id AS text)) AS id,
           to_jsonb(said.verdict) AS verdict, true AS found
    FROM said JOIN execution AS e ON e.id = said.execution_id LEFT JOIN tool_call AS c ON c.id = e.call_id
)
SELECT subject, coalesce(recorded.seq, 0) AS seq,
       left(actor, 100) || CASE WHEN recorded.seq IS NULL THEN ': what was said of an attempt in doubt is not on record'
                                WHEN found IS NULL THEN ': what was said of an attempt in doubt is gone'
                                ELSE ': what was said of an attempt in doubt is on record again' END AS what
FROM recorded FULL JOIN stored USING (subject, event, actor, id, verdict)
WHERE recorded.seq IS NULL OR found IS NULL OR nth > 1
""")
# A value that cannot be written out, or that Python cannot hold, is left out: it is on no record.
_TERMS = text("""
SELECT r.id, 'request:' || r.id AS subject, coalesce(e.seq, 0) AS seq,
       'its reviewers, exclusions, quorum or deadline are not those on record' AS what,
       CASE WHEN NOT jsonb_path_exists(r.approvers, '$[*] ? (@.type() != "string")') THEN r.approvers END AS approvers,
       CASE WHEN NOT jsonb_path_exists(r.excluded, '$.** ? (@.type() == "number")') THEN r.excluded END AS excluded,
       r.approvals_required, r.requester_team_id, r.requester_user_id,
       CASE WHEN r.expires_at BETWEEN '0001-01-02Z' AND '9999-12-30Z' THEN r.expires_at END AS expires_at,
       CASE jsonb_typeof(e.detail -> 'terms') WHEN 'string' THEN left(e.detail ->> 'terms', 65) END AS terms_recorded
FROM approval_request AS r LEFT JOIN LATERAL (
    SELECT seq, detail FROM audit_event
    WHERE subject = 'request:' || r.id AND event IN ('request.opened', 'request.edited', 'request.escalated')
    ORDER BY seq DESC LIMIT 1) AS e ON true
WHERE r.id > :after ORDER BY r.id LIMIT :page
""")
_ESCALATIONS = text("""
WITH recorded AS (
    SELECT subject, seq, row_number() OVER (PARTITION BY subject ORDER BY seq) AS nth FROM audit_event
    WHERE event = 'request.escalated'
), stored AS (
    SELECT 'request:' || id AS subject, true AS found FROM approval_request WHERE escalated_at IS NOT NULL
)
SELECT subject, coalesce(recorded.seq, 0) AS seq,
       CASE WHEN recorded.seq IS NULL THEN 'its escalation is not on record'
            WHEN found IS NULL THEN 'tells of an escalation that is gone'
            ELSE 'tells of an escalation again' END AS what
FROM recorded FULL JOIN stored USING (subject) WHERE recorded.seq IS NULL OR found IS NULL OR nth > 1
""")
# What a retention has erased keeps its digest, which `revisions` compares.
_GRANTS = text("""
SELECT g.request_id AS id, 'request:' || g.request_id AS subject, g.agent, g.tool, g.checkpoint_id, g.agents,
       CASE WHEN g.until BETWEEN '0001-01-02Z' AND '9999-12-30Z' THEN g.until END AS until,
       g.max_uses, g.max_sum, v.action
FROM approval_grant AS g JOIN request_revision AS v ON v.request_id = g.request_id AND v.n = 1
WHERE v.erased_at IS NULL AND g.request_id > :after ORDER BY g.request_id LIMIT :page
""")
_GRANTS_GONE = text("""
SELECT 'request:' || r.id AS subject, 0 AS seq, 'the grant that it asks for is gone' AS what
FROM approval_request AS r LEFT JOIN approval_grant AS g ON g.request_id = r.id
WHERE r.source = 'allow_similar' AND g.request_id IS NULL
""")
# A use stands in two chains: that of the grant, and that of the run or key that used it.
_GRANT_USES = text("""
WITH recorded AS (
    SELECT subject, detail -> 'grant' AS id, detail -> 'digest' AS digest, count(*) AS uses, max(seq) AS seq
    FROM audit_event WHERE event = 'grant.used' GROUP BY 1, 2, 3
), uses AS (
    SELECT u.grant_id, encode(u.digest, 'hex') AS digest,
           coalesce('run:' || c.run_id, split_part(u.key, ' ', 1)) AS user
    FROM grant_use AS u LEFT JOIN tool_call AS c
        ON c.id = CASE WHEN u.key ~ '^call:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                       THEN CAST(substr(u.key, 6) AS uuid) END
), stored AS (
    SELECT subject, to_jsonb(CAST(grant_id AS text)) AS id, to_jsonb(digest) AS digest, count(*) AS uses
    FROM (SELECT 'request:' || grant_id AS subject, grant_id, digest FROM uses
          UNION ALL SELECT uses.user, grant_id, digest FROM uses) AS each
    GROUP BY 1, 2, 3
)
SELECT subject, coalesce(seq, 0) AS seq,
       'of a grant''s uses for one action ' || coalesce(recorded.uses, 0) || ' are on record, '
           || coalesce(stored.uses, 0) || ' are stored' AS what
FROM recorded FULL JOIN stored USING (subject, id, digest) WHERE recorded.uses IS DISTINCT FROM stored.uses
UNION ALL
SELECT 'request:' || g.request_id, 0,
       'the grant counts ' || g.uses || ' uses, and ' || coalesce(used.uses, 0) || ' are stored'
FROM approval_grant AS g
LEFT JOIN (SELECT grant_id, count(*) AS uses, sum(amount) AS amount FROM grant_use GROUP BY grant_id) AS used
    ON used.grant_id = g.request_id
WHERE g.uses <> coalesce(used.uses, 0) OR g.used_sum <> coalesce(used.amount, 0)
""")
_GRANT_ENDS = text("""
WITH recorded AS (
    SELECT subject, seq, actor, detail -> 'because' AS because,
           row_number() OVER (PARTITION BY subject ORDER BY seq) AS nth
    FROM audit_event WHERE event = 'grant.ended'
), stored AS (
    SELECT 'request:' || request_id AS subject, ended_by AS actor, to_jsonb(ended_because) AS because, true AS found
    FROM approval_grant WHERE ended_at IS NOT NULL
)
SELECT subject, coalesce(recorded.seq, 0) AS seq,
       CASE WHEN recorded.seq IS NULL THEN 'the end of the grant is not on record'
            WHEN found IS NULL THEN 'tells of the end of a grant that has not ended'
            WHEN nth > 1 THEN 'tells of the end of the grant again'
            ELSE 'is not the end of the grant that is stored' END AS what
FROM recorded FULL JOIN stored USING (subject)
WHERE recorded.seq IS NULL OR found IS NULL OR nth > 1
   OR recorded.actor IS DISTINCT FROM stored.actor OR recorded.because IS DISTINCT FROM stored.because
""")
_POLICIES = text("""
WITH recorded AS (
    SELECT subject, seq, actor, detail, detail -> 'epoch' AS epoch,
           row_number() OVER (PARTITION BY subject, detail -> 'epoch' ORDER BY seq) AS nth
    FROM audit_event WHERE event = 'policy.applied'
), stored AS (
    SELECT 'policy' AS subject, to_jsonb(epoch) AS epoch, epoch AS n, to_jsonb(encode(digest, 'hex')) AS digest,
           to_jsonb(encode(sha256(convert_to(source, 'UTF8')), 'hex')) AS text,
           coalesce(to_jsonb(restores), 'null') AS restores, by
    FROM policy
)
SELECT subject, coalesce(seq, 0) AS seq,
       CASE WHEN seq IS NULL THEN 'policy ' || n || ' is not on record'
            WHEN n IS NULL THEN 'tells of a policy that is gone'
            WHEN nth > 1 THEN 'tells of policy ' || n || ' again'
            ELSE 'policy ' || n || ' is not the one that is stored' END AS what
FROM recorded FULL JOIN stored USING (subject, epoch)
WHERE seq IS NULL OR n IS NULL OR nth > 1 OR detail -> 'digest' IS DISTINCT FROM digest
   OR detail -> 'text' IS DISTINCT FROM text OR detail -> 'restores' IS DISTINCT FROM restores OR actor <> by
""")
_KEY_TERMS = text("""
SELECT k.id, 'key' || ':' || k.name AS subject, coalesce(e.seq, 0) AS seq,
       'the scopes, owner, agent, expiry or secret of the key are not those on record' AS what,
       k.scopes, k.owner_team_id, k.owner_user_id, k.agent, k.hash, k.old_hash,
       CASE WHEN k.expires_at BETWEEN '0001-01-02Z' AND '9999-12-30Z' THEN k.expires_at END AS expires_at,
       CASE WHEN k.old_until BETWEEN '0001-01-02Z' AND '9999-12-30Z' THEN k.old_until END AS old_until,
       CASE WHEN coalesce(k.expires_at, now()) BETWEEN '0001-01-02Z' AND '9999-12-30Z'
                 AND coalesce(k.old_until, now()) BETWEEN '0001-01-02Z' AND '9999-12-30Z'
                 AND jsonb_typeof(e.detail -> 'terms') = 'string'
            THEN left(e.detail ->> 'terms', 65) END AS terms_recorded
FROM api_key AS k LEFT JOIN LATERAL (
    SELECT seq, detail FROM audit_event
    WHERE subject = 'key' || ':' || k.name AND event IN ('key.created', 'key.rotated')
    ORDER BY seq DESC LIMIT 1) AS e ON true
WHERE k.id > :after ORDER BY k.id LIMIT :page
""")
_KEYS = text("""
WITH recorded AS (
    SELECT subject, seq, event, row_number() OVER (PARTITION BY subject, event ORDER BY seq) AS nth FROM audit_event
    WHERE event IN ('key.created', 'key.rotated', 'key.revoked')
), stored AS (
    SELECT 'key' || ':' || name AS subject, 'key.created' AS event FROM api_key
    UNION ALL SELECT 'key' || ':' || name, 'key.revoked' FROM api_key WHERE revoked_at IS NOT NULL
), once AS (
    SELECT subject, recorded.seq, event, nth, stored.subject IS NOT NULL AS found
    FROM recorded FULL JOIN stored USING (subject, event) WHERE event <> 'key.rotated'
)
SELECT subject, coalesce(seq, 0) AS seq,
       CASE event WHEN 'key.revoked' THEN 'its revocation' ELSE 'the key' END
           || CASE WHEN seq IS NULL THEN ' is not on record' WHEN found THEN ' is on record again'
                   ELSE ' is gone' END AS what
FROM once WHERE seq IS NULL OR NOT found OR nth > 1
UNION ALL
SELECT subject, seq, 'tells of a key that is gone'
FROM recorded LEFT JOIN api_key AS k ON 'key' || ':' || k.name = subject WHERE event = 'key.rotated' AND k.id IS NULL
""")
# A pause and its end take turns; the last word is the row's.
_PAUSES = text("""
WITH events AS (
    SELECT subject, seq, actor, event, detail -> 'scope' AS scope, detail -> 'reason' AS reason
    FROM audit_event WHERE event IN ('executions.paused', 'executions.resumed')
), recorded AS (
    SELECT *, lag(event, 1, 'executions.resumed') OVER by_scope AS before, lead(seq) OVER by_scope IS NULL AS last
    FROM events WINDOW by_scope AS (PARTITION BY subject, scope ORDER BY seq)
), stored AS (
    SELECT 'pause' AS subject, to_jsonb(scope) AS scope, by, coalesce(to_jsonb(reason), 'null') AS reason FROM pause
), latest AS (
    SELECT subject, seq, actor, scope, reason FROM recorded WHERE last AND event = 'executions.paused'
)
SELECT subject, seq, 'does not follow its opposite' AS what FROM recorded WHERE event = before
UNION ALL
SELECT subject, seq, 'tells of no pause of this installation' FROM recorded
WHERE subject <> 'pause' OR jsonb_typeof(scope) IS DISTINCT FROM 'string'
UNION ALL
SELECT subject, coalesce(seq, 0),
       CASE WHEN seq IS NULL THEN 'a pause is not on record' WHEN by IS NULL THEN 'the pause is gone'
            ELSE 'is not the pause that is stored' END
FROM latest FULL JOIN stored USING (subject, scope)
WHERE seq IS NULL OR by IS NULL OR by <> actor OR latest.reason IS DISTINCT FROM stored.reason
""")

COMPARISONS: Mapping[str, Callable[[Connection], Awaitable[list[ChainProblem]]]] = {
    "subjects": partial(_differing, _SUBJECTS),
    "terms of consent": partial(_with_other_terms, _TERMS, lambda row: consent_terms.stored(row).digest),
    "escalations": partial(_differing, _ESCALATIONS),
    "revisions": partial(_differing, _REVISIONS),
    "votes": partial(_differing, _VOTES),
    "votes put aside": partial(_differing, _LIVE_VOTES),
    "decisions": partial(_differing, _DECISIONS),
    "attempts": partial(_differing, _EXECUTIONS),
    "settlements": partial(_differing, _SETTLEMENTS),
    "grants": _other_grants,
    "grants that are gone": partial(_differing, _GRANTS_GONE),
    "uses of grants": partial(_differing, _GRANT_USES),
    "ends of grants": partial(_differing, _GRANT_ENDS),
    "policies": partial(_differing, _POLICIES),
    "keys": partial(_differing, _KEYS),
    "terms of keys": partial(_with_other_terms, _KEY_TERMS, lambda row: row_as(KeyTerms, row).digest),
    "pauses": partial(_differing, _PAUSES),
}
