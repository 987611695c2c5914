"""Requests, votes, decisions and attempts that differ from the chains."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import Row, text

from agent.domain.answers import AnswerForm
from agent.domain.rules import digest_of
from agent.store import consent_terms
from agent.store.row_comparison import Comparison, by_terms, differing, judged_one_by_one
from signoff.canonical import parse_checked
from signoff.errors import MalformedArguments

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
           detail -> 'answer' AS answer, detail -> 'own_words' AS own_words, detail -> 'together' AS together,
           count(*) AS votes, max(seq) AS seq
    FROM audit_event WHERE event = 'vote.cast' GROUP BY 1, 2, 3, 4, 5, 6, 7
), stored AS (
    SELECT 'request:' || v.request_id AS subject, 'slack:' || team_id || '/' || user_id AS actor,
           to_jsonb(CAST(verdict AS text)) AS verdict, to_jsonb(revision) AS revision,
           to_jsonb(encode(CASE WHEN w.erased_at IS NULL THEN sha256(w.value) ELSE w.digest END, 'hex')) AS answer,
           to_jsonb(w.own_words) AS own_words, to_jsonb(v.together) AS together, count(*) AS votes
    FROM vote AS v LEFT JOIN answer AS w ON w.vote_id = v.id AND w.request_id = v.request_id
    GROUP BY 1, 2, 3, 4, 5, 6, 7
)
SELECT coalesce(recorded.subject, stored.subject) AS subject, coalesce(recorded.seq, 0) AS seq,
       left(coalesce(recorded.actor, stored.actor), 100) || ': ' || coalesce(recorded.votes, 0) || ' votes "'
           || CASE jsonb_typeof(coalesce(recorded.verdict, stored.verdict)) WHEN 'string'
             THEN left(coalesce(recorded.verdict, stored.verdict) #>> '{}', 20) ELSE '?' END || '" on revision '
           || CASE jsonb_typeof(coalesce(recorded.revision, stored.revision)) WHEN 'number'
             THEN left(CAST(coalesce(recorded.revision, stored.revision) AS text), 20) ELSE '?' END
           || ' are on record, ' || coalesce(stored.votes, 0) || ' are stored' AS what
FROM recorded FULL JOIN stored
    ON (recorded.subject, recorded.actor, recorded.verdict, recorded.revision)
     = (stored.subject, stored.actor, stored.verdict, stored.revision)
   AND (coalesce(recorded.answer, 'null'), coalesce(recorded.own_words, 'null'),
        coalesce(recorded.together, 'null'))
     = (coalesce(stored.answer, 'null'), coalesce(stored.own_words, 'null'), coalesce(stored.together, 'null'))
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
           encode(d.digest, 'hex') AS digest, 'slack:' || d.team_id || '/' || d.user_id AS person,
           (SELECT jsonb_agg('slack:' || (who ->> 0) || '/' || (who ->> 1) ORDER BY n)
            FROM jsonb_array_elements(d.approved_by) WITH ORDINALITY AS each (who, n)) AS approved_by
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
   OR detail -> 'approved_by' IS DISTINCT FROM approved_by
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
# As text: PostgreSQL writes a large double out as digits, which are read as a double again. An erased form is left out.
_FORMS = text("""
SELECT r.id, 'request:' || r.id AS subject, coalesce(e.seq, 0) AS seq,
       'what it asks for is not that on record' AS what, CAST(r.answer_form AS text) AS answer_form,
       CASE jsonb_typeof(e.form) WHEN 'string' THEN left(e.form #>> '{}', 65) END AS terms_recorded
FROM approval_request AS r LEFT JOIN LATERAL (
    SELECT seq, detail -> 'answer_form' AS form FROM audit_event
    WHERE subject = 'request:' || r.id AND event = 'request.opened' ORDER BY seq LIMIT 1) AS e ON true
WHERE r.id > :after AND (r.answer_form IS NOT NULL OR e.form IS NOT NULL)
  AND NOT EXISTS (SELECT FROM request_revision WHERE request_id = r.id AND erased_at IS NOT NULL)
ORDER BY r.id LIMIT :page
""")
# As text, for the same reason.
_RULES = text("""
SELECT digest AS id, 'rule:' || encode(digest, 'hex') AS subject, 0 AS seq,
       'the rule is not the one that requests were opened under' AS what, CAST(content AS text) AS content
FROM rule WHERE digest > :after ORDER BY digest LIMIT :page
""")
_RULES_GONE = text("""
SELECT 'request:' || r.id AS subject, 0 AS seq, 'the rule that it was opened under is gone' AS what
FROM approval_request AS r LEFT JOIN rule ON rule.digest = r.rule_digest WHERE rule.digest IS NULL
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
# A run's call that policy let run has no request, and so no word on record.
_EXECUTORS = text("""
SELECT e.subject, e.seq, 'its call, or who carries it out, is not that on record' AS what
FROM audit_event AS e JOIN approval_request AS r ON e.subject = 'request:' || r.id
JOIN tool_call AS c ON c.id = r.call_id
WHERE e.event = 'request.opened'
  AND (e.detail -> 'call' IS DISTINCT FROM to_jsonb(CAST(c.id AS text))
       OR (c.ask_no = r.ask_no AND e.detail -> 'executor' IS DISTINCT FROM to_jsonb(CAST(c.executor AS text))))
""")


def _form_digest(row: Row[Any]) -> str:
    """Raises ValueError for a form that cannot be read."""
    if row.answer_form is None:
        return ""
    try:
        return AnswerForm.stored(parse_checked(row.answer_form.encode())).digest
    except (MalformedArguments, RecursionError) as error:
        raise ValueError(str(error)) from None


def _is_another_rule(row: Row[Any]) -> bool:
    """Its content has not the digest by which requests name it."""
    try:
        return digest_of(parse_checked(row.content.encode())) != bytes(row.id)
    except (MalformedArguments, RecursionError) as error:
        raise ValueError(str(error)) from None


COMPARISONS: Mapping[str, Comparison] = {
    "subjects": partial(differing, _SUBJECTS),
    "terms of consent": by_terms(_TERMS, lambda row: consent_terms.stored(row).digest),
    "what questions ask for": by_terms(_FORMS, _form_digest),
    "rules": partial(judged_one_by_one, _RULES, _is_another_rule, after=b""),
    "rules that are gone": partial(differing, _RULES_GONE),
    "escalations": partial(differing, _ESCALATIONS),
    "executors": partial(differing, _EXECUTORS),
    "revisions": partial(differing, _REVISIONS),
    "votes": partial(differing, _VOTES),
    "votes put aside": partial(differing, _LIVE_VOTES),
    "decisions": partial(differing, _DECISIONS),
    "attempts": partial(differing, _EXECUTIONS),
    "settlements": partial(differing, _SETTLEMENTS),
}
