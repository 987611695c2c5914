"""Which approvals cover what would run now."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import pytest

from agent.domain.coverage import (
    FIELDS,
    Gap,
    Neutral,
    StoredApproval,
    WouldRun,
    allows_edit,
    terms_changes,
    uncovered,
)
from agent.domain.facts import Facts, FactsSource
from agent.domain.judgement import Judgement
from agent.domain.rules import Rule
from agent.domain.run import CallExecutor
from signoff.values import Action

PROGRAM, SIGNOFF = FactsSource.PROGRAM, FactsSource.SIGNOFF
CHEAP, DEAR = {"price": 10}, {"price": 1500}
ACTION = Action("process_refund", "1", {"order_id": 7})


def rule(**terms: Any) -> Rule:
    required = {"checkpoint_id": "refunds", "action_pattern": "process_refund", "on_reject": "stop"}
    return Rule.model_validate(required | terms)


def approval(opened: Rule, **stored: Any) -> StoredApproval:
    known: dict[str, Any] = {
        "digest_decided": ACTION.digest,
        "digest_recorded": ACTION.digest,
        "terms_stand": True,
        "signature_decided": None,
        "asked_version": None,
        "executor_asked": None,
        "facts": None,
        "facts_source": None,
        "facts_age": 0.0,
        "policy": opened.snapshot(),
        "edited": False,
        "escalated": False,
        "waited": 0.0,
        "age": 0.0,
        "attempts": 0,
    }
    return StoredApproval(**known | stored)


def judged(now: Rule | None, verdict: Literal["run", "ask", "deny"] = "ask") -> Judgement:
    return Judgement(verdict, now, "because")


def gap(given: StoredApproval, now: WouldRun) -> Gap | None:
    found = uncovered(given, ACTION, now)
    return found.gap if found else None


def test_each_field_of_a_rule_is_declared() -> None:
    """A new field of a rule is not forgotten: it voids approvals, or says why it does not."""
    assert set(FIELDS) == set(Rule.model_fields)
    assert all(each.because for each in FIELDS.values() if isinstance(each, Neutral))


UNDECIDED: dict[str, Any] = {}
EDITED, ESCALATED = {"edited": True}, {"escalated": True}
TERMS = [
    ({}, {}, UNDECIDED, False),
    ({}, {"approvals_required": 2}, UNDECIDED, True),
    ({"approvals_required": 2}, {}, UNDECIDED, False),
    ({"risk": "low"}, {"risk": "high"}, UNDECIDED, True),
    ({"risk": "high"}, {"risk": "low"}, UNDECIDED, False),
    ({"approvers": ["U1"]}, {"approvers": ["U1", "U2"]}, UNDECIDED, False),
    ({"approvers": ["U1", "U2"]}, {"approvers": ["U1"]}, UNDECIDED, True),
    ({"approvers": ["U1"]}, {"approvers": ["U2"]}, UNDECIDED, True),
    ({"prevent_self_review": False}, {}, UNDECIDED, True),
    ({}, {"prevent_self_review": False}, UNDECIDED, False),
    ({}, {"reason_required": ["approve"]}, UNDECIDED, True),
    ({}, {"reason_required": ["reject"]}, UNDECIDED, False),
    ({"channel": "C1"}, {"channel": "C2"}, UNDECIDED, True),
    ({"channel": "C1", "approvers": ["U1"]}, {"channel": "C2", "approvers": ["U1"]}, UNDECIDED, False),
    ({"allow_edit": True}, {}, UNDECIDED, False),
    ({"allow_edit": True}, {}, EDITED, True),
    ({"allow_edit": True}, {"allow_edit": True}, EDITED, False),
    ({"allow_edit": True, "editor_may_approve": True}, {"allow_edit": True}, UNDECIDED, False),
    ({"allow_edit": True, "editor_may_approve": True}, {"allow_edit": True}, EDITED, True),
    ({"timeout": "PT60S"}, {"timeout": "PT30S"}, {"waited": 29.0}, False),
    ({"timeout": "PT60S"}, {"timeout": "PT30S"}, {"waited": 31.0}, True),
    ({"timeout": "PT60S"}, {"timeout": "PT60S"}, {"waited": 61.0}, False),  # it was decided in time
    (
        {"on_timeout": "escalate", "escalate_to": ["U9"], "timeout": "PT60S"},
        {"on_timeout": "escalate", "escalate_to": ["U9"], "timeout": "PT30S"},
        ESCALATED | {"waited": 59.0},
        False,
    ),
    ({"on_timeout": "escalate", "escalate_to": ["U9"]}, {}, UNDECIDED, False),
    ({"on_timeout": "escalate", "escalate_to": ["U9"]}, {}, ESCALATED, True),
    (
        {"on_timeout": "escalate", "escalate_to": ["U9"]},
        {"on_timeout": "escalate", "escalate_to": ["U8"]},
        ESCALATED,
        True,
    ),
    ({"on_timeout": "escalate", "escalate_to": ["U9"]}, {"approvers": ["channel", "U9"]}, ESCALATED, False),
    ({}, {"redact": ["card"], "notify": ["U5"], "on_reject": "tell_model"}, EDITED | ESCALATED, False),
]


@pytest.mark.parametrize("by", ["program", "run", "retry"])
@pytest.mark.parametrize(("before", "after", "how", "expected"), TERMS)
def test_a_tighter_policy_voids_an_approval_that_it_would_not_have_given(
    before: dict[str, Any], after: dict[str, Any], how: dict[str, Any], expected: bool, by: str
) -> None:
    """The same answer for programs, runs and later attempts; an approval is never void because policy became looser."""
    given = approval(rule(**before), **how, attempts=int(by == "retry"))
    facts = None if by == "program" else Facts()
    found = uncovered(given, ACTION, WouldRun(ACTION, facts, judged(rule(**after))))
    assert (found is not None) is expected
    if found is not None:
        assert found.gap is Gap.STRICTER
        assert any(field in found.because for field in FIELDS)
    assert gap(given, WouldRun(ACTION, facts, judged(None, "run"))) is None


@pytest.mark.parametrize(
    ("age", "opened", "now", "attempts", "expected"),
    [
        (59, "PT60S", "PT60S", 0, None),
        (60, "PT60S", "PT60S", 0, Gap.LAPSED),
        (31, "PT60S", "PT30S", 0, Gap.LAPSED),
        (61, "PT60S", "PT90S", 0, Gap.LAPSED),  # what people approved was for 60 s
        (61, "PT60S", "PT60S", 1, None),  # it began in time
    ],
)
def test_the_shorter_execute_within_counts(
    age: float, opened: str, now: str, attempts: int, expected: Gap | None
) -> None:
    """An approval lapses under the rule that it was given under and under the one in force, whichever is first."""
    given = approval(rule(execute_within=opened), age=float(age), attempts=attempts)
    assert gap(given, WouldRun(ACTION, None, judged(rule(execute_within=now)))) is expected


def facts(values: dict[str, Any] | None, source: FactsSource | None = PROGRAM) -> Facts:
    return Facts(values, source=source)


CHANGED, NEEDED = Gap.FACTS_CHANGED, Gap.FACTS_NEEDED


@pytest.mark.parametrize(
    ("approved", "source", "age", "now", "are_read", "expected"),
    [
        (None, None, 999, None, True, None),  # nobody ever told any
        (None, None, 0, facts(CHEAP), True, CHANGED),  # people have not seen them
        (None, None, 0, facts(CHEAP, SIGNOFF), True, CHANGED),  # policy looks them up by now
        (CHEAP, PROGRAM, 59, None, True, None),
        (CHEAP, PROGRAM, 61, None, True, NEEDED),
        (CHEAP, PROGRAM, 61, None, False, None),  # no rule reads them
        (CHEAP, PROGRAM, 999, facts({"price": 10.0}), True, None),  # the same number
        (CHEAP, PROGRAM, 0, facts(DEAR), False, CHANGED),  # what is told is always compared
        (CHEAP, PROGRAM, 0, facts(DEAR, SIGNOFF), False, CHANGED),
        (CHEAP, PROGRAM, 0, facts({**CHEAP, "note": "new"}), True, CHANGED),
        (CHEAP, PROGRAM, 0, facts({}), True, CHANGED),
        (CHEAP, PROGRAM, 0, Facts(failed=True, source=PROGRAM), True, NEEDED),
        (None, PROGRAM, 0, None, False, NEEDED),  # they were missing when people decided
        (None, PROGRAM, 0, facts(CHEAP), False, CHANGED),
        (CHEAP, SIGNOFF, 0, None, False, NEEDED),  # looked up for every claim
        (CHEAP, SIGNOFF, 999, facts(CHEAP, SIGNOFF), True, None),
        (CHEAP, SIGNOFF, 0, Facts(failed=True, source=SIGNOFF), True, NEEDED),
        (CHEAP, SIGNOFF, 0, facts(None, None), True, CHANGED),  # policy looks them up no more
        (CHEAP, SIGNOFF, 0, facts(CHEAP), True, NEEDED),  # the program's own do not replace them
        (CHEAP, SIGNOFF, 0, facts(DEAR), True, NEEDED),
        (CHEAP, None, 999, facts(CHEAP, None), True, None),  # the tool's own
        (CHEAP, None, 0, facts(DEAR, None), True, CHANGED),
        (CHEAP, None, 0, Facts(failed=True), True, NEEDED),
    ],
)
def test_an_approval_covers_just_the_facts_that_were_shown(
    approved: dict[str, Any] | None,
    source: FactsSource | None,
    age: float,
    now: Facts | None,
    are_read: bool,
    expected: Gap | None,
) -> None:
    """Other facts void it, missing or old ones hold it up, and nothing else lets it begin."""
    given = approval(rule(), facts=Facts(approved).canonical, facts_source=source, facts_age=float(age))
    assert gap(given, WouldRun(ACTION, now, judged(rule()), facts_are_read=are_read)) is expected


@pytest.mark.parametrize(("now", "expected"), [("PT30S", NEEDED), ("PT60S", None)])
def test_facts_are_as_old_as_policy_in_force_allows(now: str, expected: Gap | None) -> None:
    """A shorter `facts_max_age` applies to approvals that people have given already."""
    given = approval(rule(), facts=Facts(CHEAP).canonical, facts_source=PROGRAM, facts_age=45.0)
    in_force = judged(rule(facts_max_age=now))
    assert gap(given, WouldRun(ACTION, None, in_force, facts_are_read=True)) is expected


@pytest.mark.parametrize(
    ("stored", "now", "expected"),
    [
        ({"digest_decided": b"other"}, {}, Gap.ALTERED),
        ({"digest_recorded": None}, {}, Gap.ALTERED),
        ({"terms_stand": False}, {}, Gap.ALTERED),
        ({}, {"action": replace(ACTION, tool_version="2")}, Gap.OTHER_CODE),
        ({}, {"action": replace(ACTION, arguments={"order_id": 7, "note": ""})}, Gap.OTHER_CODE),
        ({"signature_decided": b"1"}, {"signature": b"2"}, Gap.OTHER_CODE),
        ({"signature_decided": b"1"}, {"signature": b"1"}, None),
        ({"asked_version": "1"}, {"agent_version": "2"}, Gap.OTHER_CODE),
        ({"executor_asked": CallExecutor.HERE}, {"executor": CallExecutor.PROGRAM}, Gap.OTHER_CODE),
        ({"executor_asked": CallExecutor.HERE}, {"executor": CallExecutor.HERE}, None),
        ({}, {"judgement": judged(None, "deny")}, Gap.DENIED),
        ({}, {"judgement": judged(None, "run")}, None),
        ({}, {"judgement": None}, None),
    ],
)
def test_an_approval_covers_just_what_people_saw(
    stored: dict[str, Any], now: dict[str, Any], expected: Gap | None
) -> None:
    """Another action, another version of the code, or a policy that denies it: it does not run."""
    would: dict[str, Any] = {"action": ACTION, "facts": None, "judgement": judged(rule())} | now
    assert gap(approval(rule(), **stored), WouldRun(**would)) is expected


@pytest.mark.parametrize(
    ("opened", "now", "expected"),
    [
        ({"allow_edit": True}, {"allow_edit": True}, True),
        ({}, {"allow_edit": True}, False),
        ({"allow_edit": True}, {}, False),
        ({"allow_edit": True}, {"allow_edit": True, "risk": "critical"}, False),
        ({"allow_edit": True, "editor_may_approve": True}, {"allow_edit": True}, False),
        ({"allow_edit": True}, {"allow_edit": True, "editor_may_approve": True}, True),
    ],
)
def test_an_edit_stays_within_the_rule_of_its_request(
    opened: dict[str, Any], now: dict[str, Any], expected: bool
) -> None:
    """Both rules must allow the edit, and those who are asked must suffice for the changed action."""
    assert allows_edit(rule(**opened), rule(**now)) is expected


def test_terms_are_compared_in_both_directions() -> None:
    """Whoever tries a policy learns that it asks for less, too."""
    before = rule(risk="high", timeout=timedelta(hours=1), approvers=["U1"])
    after = rule(risk="low", timeout=timedelta(minutes=1), approvers=["U2"], notify=["U3"])
    found = {each.field: each.direction for each in terms_changes(before, after)}
    assert found == {"approvers": "different", "risk": "looser", "timeout": "tighter"}
    assert terms_changes(before, before) == ()
