"""Compare rows of consent with their audit events; either may be altered or missing."""

from __future__ import annotations

from sqlalchemy import text

from agent.database.transaction import Connection
from agent.domain.audit import ChainProblem


async def find(connection: Connection) -> list[ChainProblem]:
    found = []
    for statement in (_SUBJECTS, _REVISIONS, _VOTES, _LIVE_VOTES, _DECISIONS, _EXECUTIONS, _SETTLEMENTS):
        rows = await connection.execute(statement)
        found += [ChainProblem(row.subject, row.seq, row.what) for row in rows]
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
_REVISIONS = text("""
WITH recorded AS (
    SELECT subject, seq, actor, event, detail ->> 'digest' AS digest,
           CASE event WHEN 'request.opened' THEN 1 ELSE (detail ->> 'revision')::int + 1 END AS n
    FROM audit_event WHERE event IN ('request.opened', 'request.edited')
), stored AS (
    SELECT 'request:' || v.request_id AS subject, v.n, encode(v.digest, 'hex') AS digest, r.revision,
           v.erased_at IS NULL AND v.digest <> sha256(v.action) AS altered,
           'slack:' || v.editor_team_id || '/' || v.editor_user_id AS editor
    FROM request_revision AS v JOIN approval_request AS r ON r.id = v.request_id
)
SELECT subject, coalesce(recorded.seq, 0) AS seq,
       CASE WHEN stored.n IS NULL THEN 'tells of revision ' || n || ', which is gone'
            WHEN recorded.seq IS NULL THEN 'revision ' || n || ' is not on record'
            ELSE 'revision ' || n || ' is not what is stored' END AS what
FROM recorded FULL JOIN stored USING (subject, n)
WHERE recorded.seq IS NULL OR stored.n IS NULL OR recorded.digest <> stored.digest OR altered OR n > revision
   OR (event = 'request.edited' AND editor IS DISTINCT FROM actor)
""")
_VOTES = text("""
WITH recorded AS (
    SELECT subject, actor, detail ->> 'verdict' AS verdict, (detail ->> 'revision')::int AS revision,
           count(*) AS votes, max(seq) AS seq
    FROM audit_event WHERE event = 'vote.cast' GROUP BY 1, 2, 3, 4
), stored AS (
    SELECT 'request:' || request_id AS subject, 'slack:' || team_id || '/' || user_id AS actor,
           verdict::text AS verdict, revision, count(*) AS votes
    FROM vote GROUP BY 1, 2, 3, 4
)
SELECT subject, coalesce(recorded.seq, 0) AS seq,
       actor || ': ' || coalesce(recorded.votes, 0) || ' votes "' || verdict || '" on revision ' || revision
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
    SELECT subject, seq, actor, detail FROM audit_event
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
            ELSE 'is not the decision that is stored' END AS what
FROM recorded FULL JOIN stored USING (subject)
WHERE recorded.seq IS NULL OR stored.status IS NULL OR stored.outcome IS DISTINCT FROM stored.status
   OR coalesce(detail ->> 'outcome', outcome) <> outcome
   OR coalesce((detail ->> 'revision')::int, stored.revision) <> stored.revision
   OR coalesce(detail ->> 'digest', stored.digest) <> stored.digest
   OR coalesce(person <> actor, actor LIKE 'slack:%')
""")
_EXECUTIONS = text("""
WITH recorded AS (
    SELECT subject, seq, (detail ->> 'execution')::uuid AS id, (detail ->> 'attempt')::int AS attempt,
           detail ->> 'digest' AS digest
    FROM audit_event WHERE event = 'execution.claimed'
), ended AS (
    SELECT DISTINCT ON (1) (detail ->> 'execution')::uuid AS id, event FROM audit_event
    WHERE event IN ('execution.succeeded', 'execution.failed', 'execution.in_doubt') ORDER BY 1, seq DESC
)
SELECT coalesce(recorded.subject, 'execution:' || id) AS subject, coalesce(recorded.seq, 0) AS seq,
       CASE WHEN recorded.seq IS NULL THEN 'an attempt is not on record'
            WHEN e.status IS NULL THEN 'tells of an attempt that is gone'
            ELSE 'is not the attempt that is stored' END AS what
FROM recorded FULL JOIN execution AS e USING (id) LEFT JOIN ended USING (id)
WHERE recorded.seq IS NULL OR e.status IS NULL OR recorded.attempt <> e.attempt
   OR coalesce(recorded.digest, encode(e.digest, 'hex')) <> encode(e.digest, 'hex')
   OR coalesce(ended.event, 'execution.claimed') <> 'execution.' || e.status
""")
_SETTLEMENTS = text("""
WITH recorded AS (
    SELECT subject, seq, event, actor, (detail ->> 'execution')::uuid AS execution_id,
           coalesce(detail ->> 'verdict', detail ->> 'as', 'retry') AS verdict
    FROM audit_event WHERE event IN ('execution.settled', 'execution.retry_wanted')
), stored AS (
    SELECT 'execution.settled' AS event, execution_id, 'slack:' || team_id || '/' || user_id AS actor,
           verdict::text AS verdict
    FROM settlement
    UNION ALL
    SELECT 'execution.retry_wanted', execution_id, 'slack:' || team_id || '/' || user_id, 'retry' FROM retry_vote
)
SELECT coalesce(recorded.subject, 'execution:' || execution_id) AS subject, coalesce(recorded.seq, 0) AS seq,
       actor || CASE WHEN recorded.seq IS NULL THEN ': what was said of an attempt in doubt is not on record'
                     ELSE ': what was said of an attempt in doubt is gone' END AS what
FROM recorded FULL JOIN stored USING (event, execution_id, actor, verdict)
WHERE recorded.seq IS NULL OR stored.event IS NULL
""")
