"""The audit log: a hash chain per subject.

Each event's hash covers its content and the previous hash. A copy of a chain's head (last event's number and hash)
reveals any change. Details hold ids and digests, never arguments.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Never
from uuid import UUID

from signoff.canonical import MAX_BYTES, MAX_INTEGER, canonical_bytes
from signoff.errors import MalformedArguments
from signoff.values import Person

DIRECT = "direct"
"""`path` when a program called the use case."""


def person_of(actor: str) -> Person | None:
    """Who acted in Slack; None for a program, an operator or Signoff itself."""
    kind, _, named = actor.partition(":")
    team_id, _, user_id = named.partition("/")
    return Person(team_id, user_id) if kind == "slack" and team_id and user_id else None


class AuditKind(StrEnum):
    """A kind of event in the audit log; its value is what the chain stores and hashes."""

    POLICY_APPLIED = "policy.applied"
    RUN_STARTED = "run.started"
    RUN_MESSAGE = "run.message"
    RUN_RESUMED = "run.resumed"
    RUN_ENDED = "run.ended"
    REQUEST_OPENED = "request.opened"
    REQUEST_REOPENED = "request.reopened"
    REQUEST_EDITED = "request.edited"
    REQUEST_REMINDED = "request.reminded"
    REQUEST_ESCALATED = "request.escalated"
    REQUEST_DECIDED = "request.decided"
    REQUEST_EXPIRED = "request.expired"
    REQUEST_WITHDRAWN = "request.withdrawn"
    VOTE_CAST = "vote.cast"
    VOTE_REFUSED = "vote.refused"
    EDIT_REFUSED = "edit.refused"
    CANCEL_REFUSED = "cancel.refused"
    ASK_AGAIN_REFUSED = "ask_again.refused"
    RESUME_REFUSED = "resume.refused"
    SETTLEMENT_REFUSED = "settlement.refused"
    EXECUTION_CLAIMED = "execution.claimed"
    EXECUTION_SUCCEEDED = "execution.succeeded"
    EXECUTION_FAILED = "execution.failed"
    EXECUTION_IN_DOUBT = "execution.in_doubt"
    EXECUTION_RETRY_WANTED = "execution.retry_wanted"
    EXECUTION_SETTLED = "execution.settled"
    EXECUTION_LATE_RESULT = "execution.late_result"
    REVIEW_NOT_REQUIRED = "review.not_required"
    REVIEW_DENIED = "review.denied"
    APPROVAL_LAPSED = "approval.lapsed"
    APPROVAL_CALLED_OFF = "approval.called_off"
    GRANT_USED = "grant.used"
    GRANT_ENDED = "grant.ended"
    GRANT_REVOKE_REFUSED = "grant.revoke_refused"
    PAUSED = "executions.paused"
    RESUMED = "executions.resumed"
    KEY_CREATED = "key.created"
    KEY_ROTATED = "key.rotated"
    KEY_REVOKED = "key.revoked"
    WEBHOOK_ADDED = "webhook.added"
    WEBHOOK_REMOVED = "webhook.removed"
    SCHEDULE_ADDED = "schedule.added"
    SCHEDULE_REMOVED = "schedule.removed"
    SCHEDULE_PAUSED = "schedule.paused"
    SCHEDULE_RESUMED = "schedule.resumed"
    SCHEDULE_STARTED = "schedule.started"
    SCHEDULE_MISSED = "schedule.missed"
    SIGNED_IN = "session.started"
    SIGNED_OUT = "session.ended"
    RETENTION_ERASED = "retention.erased"
    SWEEP_FAILED = "sweep.failed"
    SWEEP_RECOVERED = "sweep.recovered"


@dataclass(frozen=True)
class AuditEvent:
    """`seq` counts from 1 within the subject; `at` has a time zone. `unreadable`: why not all of the row is here."""

    subject: str
    seq: int
    at: datetime
    actor: str
    event: str
    detail: Mapping[str, Any]
    hash: bytes
    unreadable: str | None = None


StoredEvent = tuple[int, int | None, str, str, str | None, bytes]
"""Number, microseconds since 1970, actor, event, detail as PostgreSQL writes it out, hash."""


@dataclass(frozen=True)
class Head:
    """The last event of a chain, stored or saved; `seq` 0: no event."""

    subject: str
    seq: int
    hash: bytes


@dataclass(frozen=True)
class VerifiedHead:
    """A chain's end when it verified, and when all of its events were last read."""

    head: Head
    at: datetime


@dataclass(frozen=True)
class ChainProblem:
    """A place where an audit chain does not verify: subject, number of the event, and what is wrong."""

    subject: str
    seq: int
    what: str

    def __str__(self) -> str:
        return f"{self.subject} #{self.seq}: {self.what}"


def request_subject(request_id: UUID) -> str:
    """Return the name of a request's audit chain, `request:<id>`."""
    return f"request:{request_id}"


def run_subject(run_id: UUID) -> str:
    """Return the name of a run's audit chain, `run:<id>`."""
    return f"run:{run_id}"


def call_subject(run_id: UUID | None, request_id: UUID | None) -> str:
    """The chain of a call: its request's, or without one that of the run that proposed it."""
    if request_id is not None:
        return request_subject(request_id)
    if run_id is None:
        raise ValueError("a call that no run proposed has a request")
    return run_subject(run_id)


def terms_digest(terms: object) -> str:
    """SHA-256 in hex, for the `terms` of an event: what a row has to say after it. Quick, for every vote."""
    return hashlib.sha256(json.dumps(terms).encode()).hexdigest()


def moment(at: datetime) -> str:
    """Return a time as hashes and digests include it: UTC, ISO 8601, always with microseconds."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def genesis(subject: str) -> bytes:
    """The hash before the first event: SHA-256."""
    return hashlib.sha256(canonical_bytes({"genesis": subject})).digest()


def event_hash(
    previous: bytes,
    subject: str,
    seq: int,
    at: datetime,
    actor: str,
    event: str,
    detail: Mapping[str, Any],
) -> bytes:
    """Raises ValueError for a naive `at`, and MalformedArguments."""
    content = {
        "previous": previous.hex(),
        "subject": subject,
        "seq": seq,
        "at": _rfc3339(at),
        "actor": actor,
        "event": str(event),
        "detail": detail,
    }
    return hashlib.sha256(canonical_bytes(content)).digest()


def confirmed(subject: str, events: Iterable[StoredEvent]) -> Head | None:
    """The end of a whole chain of plain events that verify; None says nothing.

    Several times as fast as `verify_chain`, which has to look at all that is not confirmed here: its canonical form is
    written without a walk over values whose types the decoder has already narrowed down.
    """
    count, end = 0, hashlib.sha256(_encode({"genesis": subject}).encode()).digest()
    try:
        for seq, at, actor, event, detail, digest in events:
            count += 1
            if seq != count or at is None or detail is None:
                return None
            if not _PLAIN_TIMES[0] <= at < _PLAIN_TIMES[1]:
                return None
            content = {
                "previous": end.hex(),
                "subject": subject,
                "seq": seq,
                "at": f"{(_EPOCH + timedelta(microseconds=at)).isoformat(timespec='microseconds')}Z",
                "actor": actor,
                "event": event,
                "detail": _plain_detail(detail),
            }
            canonical = _encode(content).encode()
            end = hashlib.sha256(canonical).digest()
            if end != digest or len(canonical) > MAX_BYTES:
                return None
    except _NotPlain:
        return None
    return Head(subject, count, end)


class _NotPlain(ValueError):
    """Numbers, names or nesting that have more than one form."""


def _not_plain(_: str) -> Never:
    raise _NotPlain


def _whole(literal: str) -> int:
    return found if len(literal) <= 17 and abs(found := int(literal)) <= MAX_INTEGER else _not_plain(literal)


_decode = json.JSONDecoder(parse_float=_not_plain, parse_int=_whole, parse_constant=_not_plain).raw_decode
_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
).encode
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC, written with Z
_PLAIN_TIMES = tuple(int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000 for year in (1000, 9999))
_MOST_BRACKETS = 32


def _plain_detail(detail: str) -> dict[str, Any]:
    """Names of ASCII alone have one order, and whole numbers of a double one form. Raises _NotPlain."""
    if not detail.isascii() or detail.count("{") + detail.count("[") > _MOST_BRACKETS:
        raise _NotPlain
    decoded, end = _decode(detail)
    if type(decoded) is not dict or end != len(detail):
        raise _NotPlain
    return decoded


def beginning(subject: str) -> Head:
    """The end of a chain without events."""
    return Head(subject, 0, genesis(subject))


def verify_chain(
    events: Iterable[AuditEvent], head: Head | None = None, after: Head | None = None
) -> list[ChainProblem]:
    """Check one chain, in stored order, or the part of it that follows `after`.

    Only `head` reveals a cut end or a chain rewritten from some point on. After a problem the check continues from
    the stored numbers and hashes: one edit is one problem.
    """
    problems: list[ChainProblem] = []
    end = after or (beginning(head.subject) if head else None)
    for event in events:
        end = end or beginning(event.subject)
        if what := _fault(event, end):
            problems.append(ChainProblem(end.subject, event.seq, what))
        end = Head(end.subject, event.seq, event.hash)
    return problems + (_against_head(end, head) if end and head else [])


def against_kept(events: Iterable[AuditEvent], kept: Head | None) -> list[ChainProblem]:
    """Check a chain, or a part of it, that once had this head."""
    return [
        ChainProblem(kept.subject, kept.seq, "is not the event of the saved head")
        for event in events
        if kept and event.seq == kept.seq and event.hash != kept.hash
    ]


def cut_since(kept: Head | None, end: Head) -> list[ChainProblem]:
    """Check the end of a chain that once had this head and may only have grown."""
    if kept is None or kept.seq <= end.seq:
        return []
    left = "is the last event left" if end.seq else "no event is left"
    return [ChainProblem(kept.subject, end.seq, f"{left}; the saved head is #{kept.seq}")]


def _fault(event: AuditEvent, before: Head) -> str | None:
    if event.subject != before.subject:
        return f"belongs to {event.subject}"
    if event.seq != before.seq + 1:
        return f"is stored where #{before.seq + 1} is expected"
    if event.unreadable:
        return f"cannot be read: {event.unreadable}"
    try:
        expected = event_hash(
            before.hash, event.subject, event.seq, event.at, event.actor, event.event, event.detail
        )
    except (MalformedArguments, ValueError) as error:
        return f"cannot be read: {error}"
    return None if expected == event.hash else "does not match its hash"


def _against_head(end: Head, head: Head) -> list[ChainProblem]:
    subject = end.subject
    if (end.seq, end.hash) == (head.seq, head.hash):
        return []
    if end.seq < head.seq:
        return [ChainProblem(subject, end.seq, f"the chain is cut here; its head is #{head.seq}")]
    if end.seq > head.seq:
        return [ChainProblem(subject, end.seq, f"comes after the head, which is #{head.seq}")]
    return [ChainProblem(subject, end.seq, "is not the event named by the head")]


def _rfc3339(at: datetime) -> str:
    if at.tzinfo is None:
        raise ValueError("the time of an event must have a time zone")
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
