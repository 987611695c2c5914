"""The record: nothing can be changed in it unseen."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.audit import (
    AuditEvent,
    AuditKind,
    Head,
    confirmed,
    event_hash,
    genesis,
    person_of,
    verify_chain,
)
from signoff.errors import MalformedArguments
from signoff.values import Person

SUBJECT = "request:1"


def chain(length: int, subject: str = SUBJECT) -> list[AuditEvent]:
    events, previous = [], genesis(subject)
    for seq in range(1, length + 1):
        at = datetime(2026, 11, 21, 12, 0, 0, seq, tzinfo=UTC)
        kind, detail = AuditKind.VOTE_CAST, {"n": seq}
        digest = event_hash(previous, subject, seq, at, "T1/U1", kind, detail)
        events.append(AuditEvent(subject, seq, at, "T1/U1", kind, detail, digest))
        previous = digest
    return events


def head_of(events: list[AuditEvent]) -> Head:
    return Head(SUBJECT, events[-1].seq, events[-1].hash)


def test_an_actor_in_slack_is_a_person():
    """Programs, operators, Signoff itself and Slack's commands are nobody."""
    assert person_of(f"slack:{Person('T1', 'U1')}") == Person("T1", "U1")
    for other in (
        "key:shop",
        "key:slack:T1/U1",
        "signoff",
        "T1/U1",
        "slack:",
        "slack:/agent",
        "slack:T1/",
        "",
    ):
        assert person_of(other) is None, other


def test_an_untouched_chain_holds():
    """A chain as it was written has no problem, with and without its head; nor has one with no event yet."""
    events = chain(5)
    assert verify_chain(events) == []
    assert verify_chain(events, head_of(events)) == []
    assert verify_chain([], Head(SUBJECT, 0, genesis(SUBJECT))) == []
    assert verify_chain([]) == []


@pytest.mark.parametrize(
    "change",
    [
        {"subject": "request:2"},
        {"seq": 9},
        {"at": datetime(2026, 11, 21, 13, tzinfo=UTC)},
        {"at": datetime(2026, 11, 21, 12)},  # noqa: DTZ001 (the point)
        {"actor": "T1/U2"},
        {"event": "vote.refused"},
        {"detail": {"n": 3, "more": True}},
        {"detail": {"n": float("nan")}},
        {"hash": b"\x00" * 32},
    ],
)
@pytest.mark.parametrize("index", [0, 2, 4])
def test_an_edit_of_any_column_is_found(change, index):
    """Verification finds any change of any row, even at the ends."""
    events = chain(5)
    head = head_of(events)
    events[index] = replace(events[index], **change)
    problems = verify_chain(events, head)
    assert problems
    assert str(problems[0]).startswith(SUBJECT)


def test_an_edit_with_a_new_hash_is_found():
    """Someone who also recomputes the hash of the edited row breaks the link of the next one, or the head."""
    for index in range(5):
        events = chain(5)
        head = head_of(events)
        edited = replace(events[index], actor="T1/U9")
        before = events[index - 1].hash if index else genesis(SUBJECT)
        digest = event_hash(before, SUBJECT, edited.seq, edited.at, "T1/U9", edited.event, edited.detail)
        events[index] = replace(edited, hash=digest)
        assert verify_chain(events, head), index


@given(st.integers(1, 8), st.data())
def test_delete_insert_swap_and_cut_are_found(length, data):
    """Any row deleted, doubled, swapped or cut off is found, given the head that is kept elsewhere."""
    events = chain(length)
    head = head_of(events)
    index = data.draw(st.integers(0, length - 1))
    other = data.draw(st.integers(0, length - 1))
    deleted = events[:index] + events[index + 1 :]
    doubled = [*events[: index + 1], *events[index:]]
    assert verify_chain(deleted, head)
    assert verify_chain(doubled, head)
    assert verify_chain(events[:index], head)
    if index != other:
        swapped = list(events)
        swapped[index], swapped[other] = swapped[other], swapped[index]
        assert verify_chain(swapped, head)


def test_a_chain_rewritten_from_some_point_is_found_by_its_head():
    """A consistent chain with another history does not fit the head."""
    events = chain(3)
    rewritten, previous = events[:1], events[0].hash
    for event in events[1:]:
        digest = event_hash(previous, SUBJECT, event.seq, event.at, "T1/U9", event.event, event.detail)
        rewritten.append(replace(event, actor="T1/U9", hash=digest))
        previous = digest
    assert verify_chain(rewritten) == []
    assert verify_chain(rewritten, head_of(events))
    assert verify_chain([*events, *chain(4)[3:]], head_of(events))


def test_another_subjects_chain_does_not_pass_for_this_one():
    """Chains of two subjects cannot be exchanged."""
    assert verify_chain(chain(3, "request:2"), Head(SUBJECT, 3, chain(3, "request:2")[-1].hash))


def test_the_time_zone_in_which_a_time_is_told_does_not_matter():
    """The same moment read back in another time zone has the same hash; the microsecond counts."""
    at = datetime(2026, 11, 21, 12, 0, 0, 1, tzinfo=UTC)
    elsewhere = at.astimezone(timezone(timedelta(hours=5, minutes=30)))

    def of(moment):
        return event_hash(genesis("s"), "s", 1, moment, "a", "e", {})

    assert of(at) == of(elsewhere)
    assert of(at) != of(at + timedelta(microseconds=1))
    with pytest.raises(ValueError, match="time zone"):
        of(at.replace(tzinfo=None))


TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)
NAMES = st.text(max_size=4, alphabet='aé\n"\\\x7f\U0001f600')
NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["digest", "revision", "é"]), PLAIN),
    TEXTS,
    st.datetimes(timezones=st.just(UTC)),
)
def test_what_is_confirmed_has_the_hash_of_its_event(detail: dict[str, Any], text: str, at: datetime) -> None:
    """The quick way confirms a chain only where the whole way finds each hash, and every plain one."""
    subject, written = f"key:{text}", json.dumps(detail, ensure_ascii=False)
    before = genesis(subject)
    try:
        digest = event_hash(before, subject, 1, at, text, "vote.cast", detail)
    except MalformedArguments:
        digest = hashlib.sha256(b"").digest()
    micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    event = (1, micros, text, "vote.cast", written, digest)
    found = confirmed(subject, [event])
    whole = AuditEvent(subject, 1, at, text, "vote.cast", detail, digest)
    assert found in (None, Head(subject, 1, digest))
    assert found is None or verify_chain([whole]) == []
    plain = written.isascii() and not set(written.replace("true", "").replace("false", "")) & set("eE.[")
    if plain and written.count("{") < 32 and verify_chain([whole]) == [] and 1000 <= at.year < 9999:
        assert found
    for other in ((2, *event[1:]), (*event[:2], f"{text}x", *event[3:]), (*event[:5], before)):
        assert confirmed(subject, [other]) is None
