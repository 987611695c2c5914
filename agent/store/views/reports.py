"""Counts for reports, from a bounded number of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import text

from agent.database.transaction import Connection, query
from agent.domain.reports import (
    AGES,
    LEFT,
    TOOK,
    Decisions,
    GroupOutcomes,
    Outcomes,
    Report,
    ReviewerVotes,
    Share,
)
from agent.domain.verdicts import BY_PEOPLE
from agent.store.clock import now
from agent.store.rows import row_as
from signoff.values import Person, Risk

MOST = 5_000
"""Waiting requests, and outcomes, read for a page."""

MOST_OF_WEEK = 20_000
"""The same for a message that is made once."""

Audience = tuple[tuple[str, ...], str]
"""Approvers, and the card's channel."""


@dataclass(frozen=True, slots=True)
class ReportScope:
    """All requests, or the reader's own and these audiences'."""

    reader: Person
    everything: bool = False
    audiences: tuple[Audience, ...] = ()

    def parameters(self) -> dict[str, Any]:
        seen = [
            {"approvers": approvers, "channel_id": channel_id} for approvers, channel_id in self.audiences
        ]
        return {
            "team": self.reader.team_id,
            "user": self.reader.user_id,
            "everything": self.everything,
            "audiences": json.dumps(seen),
        }


async def report_audiences(
    connection: Connection, team_id: str, days: int, last: date | None = None
) -> list[Audience]:
    """Return each audience of a workspace's waiting and recently decided requests, from bounded rows."""
    since, until = _period(await now(connection), days, last)
    (rows,) = await query(connection, _AUDIENCES, team=team_id, since=since, until=until, most=MOST)
    return [(tuple(row.approvers), row.channel_id) for row in rows]


async def report(
    connection: Connection,
    scope: ReportScope,
    days: int,
    last: date | None = None,
    most: int | None = None,
) -> Report:
    """So many days (UTC), of which ``last``, or today, is the last. What waits is as of now.

    Of more than ``most`` (`MOST`), only the latest count.
    """
    most = most or MOST
    since, until = _period(await now(connection), days, last)
    waiting, decided = await query(
        connection,
        _WAITING,
        _DECIDED,
        **scope.parameters(),
        since=since,
        until=until,
        most=most,
        by_people=list(BY_PEOPLE),
        ages=list(AGES.bounds),
        left=list(LEFT.bounds),
        took=list(TOOK.bounds),
    )
    (whole,), (votes,) = _of(decided, "all"), _of(decided, "votes")
    risks = {row.risk: _unread(row) for row in _of(decided, "risk")}
    forms = {
        row.together: Decisions(Outcomes(row.outcomes).decided, row.median) for row in _of(decided, "form")
    }
    return Report(
        days=days,
        everything=scope.everything,
        waiting_by_age=AGES.counts(_classes(waiting, "age")),
        waiting_by_deadline=LEFT.counts(_classes(waiting, "left")),
        outcomes=Outcomes(whole.outcomes or {}),
        by_day=_days(since.date(), days, decided),
        took=TOOK.counts([(row.class_, Outcomes(row.outcomes).decided) for row in _of(decided, "took")]),
        median=whole.median,
        slowest=whole.slowest,
        agents=_groups(_of(decided, "agent"), "agent"),
        rules=_groups(_of(decided, "rule"), "checkpoint_id"),
        reviewers=tuple(row_as(ReviewerVotes, row) for row in _of(decided, "person")),
        unread=_unread(votes),
        unread_by_risk=tuple((risk, risks[risk.value]) for risk in Risk if risk.value in risks),
        together=forms.get(True, Decisions()),
        alone=forms.get(False, Decisions()),
        cut=whole.looked_at >= most,
        waiting_cut=any(row.looked_at >= most for row in waiting),
    )


def _period(at: datetime, days: int, last: date | None) -> tuple[datetime, datetime]:
    today = at.astimezone(UTC).date()
    until = datetime.combine(min(last or today, today), time(), UTC) + timedelta(days=1)
    return until - timedelta(days=days), until


def _of(rows: Sequence[Any], kind: str) -> list[Any]:
    return [row for row in rows if row.kind == kind]


def _classes(rows: Sequence[Any], kind: str) -> list[tuple[int, int]]:
    return [(row.class_, row.number) for row in _of(rows, kind)]


def _days(first: date, days: int, rows: Sequence[Any]) -> tuple[tuple[date, Outcomes], ...]:
    known = {row.day: Outcomes(row.outcomes) for row in _of(rows, "day")}
    each = (first + timedelta(days=number) for number in range(days))
    return tuple((day, known.get(day, Outcomes())) for day in each)


def _groups(rows: Iterable[Any], name: str) -> tuple[GroupOutcomes, ...]:
    return tuple(GroupOutcomes(getattr(row, name), Outcomes(row.outcomes), row.median) for row in rows)


def _unread(row: Any) -> Share:
    return Share(row.unread, sum((row.by_verdict or {}).values()))


_AUDIENCES = text("""
SELECT DISTINCT approvers, channel_id FROM (
    (SELECT approvers, channel_id FROM approval_request WHERE status = 'waiting' AND team_id = :team LIMIT :most)
    UNION ALL
    (SELECT approvers, channel_id FROM approval_request
     WHERE team_id = :team AND decided_at >= :since AND decided_at < :until
    ORDER BY decided_at DESC, id DESC LIMIT :most)
) AS r
""")
_WAITING = text("""
WITH latest AS MATERIALIZED (
    SELECT approvers, channel_id, requester_team_id, requester_user_id, created_at, expires_at
    FROM approval_request WHERE status = 'waiting' AND team_id = :team ORDER BY created_at, id LIMIT :most
), seen AS (
    SELECT width_bucket(extract(epoch FROM (SELECT clock_timestamp()) - created_at)::float8,
                        CAST(:ages AS float8[])) AS age,
           width_bucket(extract(epoch FROM expires_at - (SELECT clock_timestamp()))::float8,
                        CAST(:left AS float8[])) AS "left"
    FROM latest
    WHERE :everything OR (requester_team_id = :team AND requester_user_id = :user)
       OR (approvers, channel_id) IN (
              SELECT a.approvers, a.channel_id
              FROM json_to_recordset(CAST(:audiences AS json)) AS a (approvers jsonb, channel_id text))
)
SELECT CASE WHEN grouping(age) = 0 THEN 'age' ELSE 'left' END AS kind,
       coalesce(age, "left") AS class_, count(*) AS number, (SELECT count(*) FROM latest) AS looked_at
FROM seen GROUP BY GROUPING SETS ((age), ("left"))
""")
# Outcomes and votes of the same rows, each with the columns of both, so that the rows are read and judged once.
# LATERAL with OFFSET 0: each row is looked up. For some thousands of them, PostgreSQL would read a whole table instead.
# A form decided several only if another of its person's votes decided, too. Its id is what its sender claims, so only
# some of its votes are looked at; an honest one has ten.
_DECIDED = text("""
WITH mine AS MATERIALIZED (
    SELECT request_id FROM decision
    WHERE NOT :everything AND team_id = :team AND user_id = :user AND decided_at >= :since AND decided_at < :until
    ORDER BY decided_at DESC, request_id DESC LIMIT :most
), latest AS MATERIALIZED (
    SELECT id, revision, agent, checkpoint_id, risk, status, approvers, channel_id, requester_team_id,
           requester_user_id, decided_at, created_at
    FROM approval_request
    WHERE team_id = :team AND decided_at >= :since AND decided_at < :until
    ORDER BY decided_at DESC, id DESC LIMIT :most
), seen AS MATERIALIZED (
    SELECT id, revision, agent, checkpoint_id, risk, status, (decided_at AT TIME ZONE 'UTC')::date AS day,
           CASE WHEN CAST(status AS text) = ANY (:by_people)
                THEN extract(epoch FROM decided_at - created_at)::float8 END AS seconds
    FROM latest
    WHERE :everything OR (requester_team_id = :team AND requester_user_id = :user)
       OR id IN (SELECT request_id FROM mine)
       OR (approvers, channel_id) IN (
              SELECT a.approvers, a.channel_id
              FROM json_to_recordset(CAST(:audiences AS json)) AS a (approvers jsonb, channel_id text))
), outcome AS (
    SELECT s.agent, s.checkpoint_id, s.status, s.day, s.seconds,
           width_bucket(s.seconds, CAST(:took AS float8[])) AS class_,
           CASE WHEN s.status IN ('approved', 'rejected') THEN coalesce(form.together, false) END AS together
    FROM seen AS s
    LEFT JOIN LATERAL (
        SELECT EXISTS (
            SELECT FROM (
                SELECT request_id, team_id, user_id FROM vote
                WHERE together = v.together AND request_id <> v.request_id AND superseded_by IS NULL
                  AND team_id = v.team_id AND user_id = v.user_id
                LIMIT 32) AS other
            JOIN decision AS o
                ON o.request_id = other.request_id AND o.team_id = other.team_id AND o.user_id = other.user_id
            WHERE o.outcome IN ('approved', 'rejected')) AS together
        FROM decision AS d JOIN vote AS v
            ON v.request_id = d.request_id AND v.team_id = d.team_id AND v.user_id = d.user_id
        WHERE d.request_id = s.id AND v.superseded_by IS NULL AND v.together IS NOT NULL
          AND s.status IN ('approved', 'rejected')
        OFFSET 0) AS form ON true
), ballot AS (
    SELECT v.*, s.risk FROM seen AS s CROSS JOIN LATERAL (
        SELECT v.team_id, v.user_id, v.verdict,
               extract(epoch FROM v.created_at - question.created_at)::float8 AS seconds,
               v.path <> 'page' AND opened.nonce IS NULL AS unread
        FROM vote AS v
        JOIN request_revision AS question ON question.request_id = v.request_id AND question.n = v.revision
        LEFT JOIN card_place AS opened  -- made when its person first opens Details in Slack, or a form with all of it
               ON opened.request_id = v.request_id AND opened.team_id = v.team_id AND opened.user_id = v.user_id
              AND opened.surface = 'modal' AND opened.created_at <= v.created_at
        WHERE v.request_id = s.id AND v.revision = s.revision AND v.superseded_by IS NULL AND v.path <> 'api'
          AND v.verdict <> 'answer'
        OFFSET 0) AS v
)
SELECT CASE grouping(agent, checkpoint_id, day, class_, together)
            WHEN 15 THEN 'agent' WHEN 23 THEN 'rule' WHEN 27 THEN 'day' WHEN 29 THEN 'took' WHEN 30 THEN 'form'
            ELSE 'all' END AS kind,
       count(*) AS number, agent, checkpoint_id, day, class_, together,
       (SELECT json_object_agg(each, number)
        FROM (SELECT each, count(*) AS number FROM unnest(array_agg(status)) AS each GROUP BY each) AS n) AS outcomes,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS median,
       percentile_cont(0.9) WITHIN GROUP (ORDER BY seconds) AS slowest,
       (SELECT count(*) FROM latest) AS looked_at,
       NULL AS person_team_id, NULL AS person_user_id, NULL AS risk, NULL AS by_verdict, NULL AS unread
FROM outcome GROUP BY GROUPING SETS ((agent), (checkpoint_id), (day), (class_), (together), ())
UNION ALL
SELECT CASE grouping(user_id, risk) WHEN 1 THEN 'person' WHEN 2 THEN 'risk' ELSE 'votes' END,
       count(*), NULL, NULL, NULL, NULL, NULL, NULL, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds), NULL, NULL,
       team_id, user_id, risk::text,
       (SELECT json_object_agg(each, number)
        FROM (SELECT each, count(*) AS number FROM unnest(array_agg(verdict)) AS each GROUP BY each) AS n),
       count(*) FILTER (WHERE unread)
FROM ballot GROUP BY GROUPING SETS ((team_id, user_id), (risk), ())
ORDER BY number DESC, agent, checkpoint_id, person_team_id, person_user_id
""")
