"""Grants, policies, keys and pauses that differ from the chains."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import Row, text

from agent.domain.api_keys import KeyTerms
from agent.domain.grants import Grant
from agent.store.row_comparison import Comparison, by_terms, differing, judged_one_by_one
from agent.store.rows import row_as
from signoff.values import Action


def _is_another_grant(row: Row[Any]) -> bool:
    """It does not say what its approved action says."""
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
    return approved != stored


# What a retention has erased keeps its digest, which `revisions` compares.
_GRANTS = text("""
SELECT g.request_id AS id, 'request:' || g.request_id AS subject, 0 AS seq,
       'the grant is not the one that was approved' AS what, g.agent, g.tool, g.checkpoint_id, g.agents,
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

COMPARISONS: Mapping[str, Comparison] = {
    "grants": partial(judged_one_by_one, _GRANTS, _is_another_grant),
    "grants that are gone": partial(differing, _GRANTS_GONE),
    "uses of grants": partial(differing, _GRANT_USES),
    "ends of grants": partial(differing, _GRANT_ENDS),
    "policies": partial(differing, _POLICIES),
    "keys": partial(differing, _KEYS),
    "terms of keys": by_terms(_KEY_TERMS, lambda row: row_as(KeyTerms, row).digest),
    "pauses": partial(differing, _PAUSES),
}
