"""What a grant covers, and why it does not."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agent.domain.facts import Facts, FactsSource
from agent.domain.field_constraints import Between, Exact, FieldValue, Fits, OneOf, read_constraint
from agent.domain.grants import (
    CallToCover,
    Grant,
    freeing_problem,
    granters_refusal,
    limits_problem,
    rule_of_grant,
)
from agent.domain.people import Exclusion, Involvement, Standing
from agent.domain.rules import GrantLimits, Rule
from signoff.formats import Money
from signoff.values import Action, Person, Risk

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
ADA, GRACE = Person("T0", "U0ADA"), Person("T0", "U0GRACE")
RULE = Rule(
    checkpoint_id="refunds",
    action_pattern="process_refund",
    approvers=("S0FINANCE",),
    on_reject="tell_model",
    allow_grants=True,
    grant_free=(("args.order_id", "[0-9]+"),),
)
FACTS = Facts({"price": 100, "customer": "acme"})
ARGUMENTS: dict[str, Any] = {"order_id": "7", "amount": 100, "reason": "late", "express": True}


def call(arguments: dict[str, Any] | None = None, **changes: Any) -> CallToCover:
    fields: dict[str, Any] = {
        "action": Action("process_refund", "3", ARGUMENTS | (arguments or {})),
        "facts": FACTS,
        "rule": RULE,
        "requester": ADA,
        "agent": "refunds",
        "agent_version": "1",
        "above": ("orders",),
        "signature": b"\1" * 32,
    }
    return CallToCover(**(fields | changes))


def grant(**changes: Any) -> Grant:
    fields: dict[str, Any] = {
        "kind": call().kind,
        "arguments": {
            "order_id": Fits("[0-9]+"),
            "amount": Between(Decimal(1), Decimal("500.5")),
            "reason": OneOf(("late", "broken")),
            "express": Exact(True),
        },
        "facts": {"price": Between(Decimal(0), Decimal(500)), "customer": Exact("acme")},
        "anyone": False,
        "requester": ADA,
        "until": NOON + timedelta(hours=8),
        "max_uses": 3,
        "sum_of": "facts.price",
        "max_sum": Decimal(1000),
    }
    return Grant(**(fields | changes))


def test_a_call_within_everything_that_was_allowed_is_covered() -> None:
    """Numbers within their bounds, a listed choice and a text that fits its pattern are covered."""
    similar = call(
        {"order_id": "12", "amount": 500.5, "reason": "broken"},
        facts=Facts({"price": 500, "customer": "acme"}),
    )
    assert grant().objection(similar) is None
    assert grant().amount(similar) == Decimal(500)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"order_id": "12 or all"}, "args.order_id"),
        ({"order_id": "12\n"}, "args.order_id"),
        ({"order_id": ""}, "args.order_id"),
        ({"order_id": 12}, "args.order_id"),
        ({"amount": 501}, "args.amount"),
        ({"amount": -100}, "args.amount"),
        ({"amount": "100"}, "args.amount"),
        ({"amount": True}, "args.amount"),
        ({"amount": None}, "args.amount"),
        ({"amount": [100]}, "args.amount"),
        ({"reason": "other"}, "args.reason"),
        ({"express": 1}, "args.express"),
        ({"express": False}, "args.express"),
        ({"note": "more"}, "its args differ"),
    ],
)
def test_an_argument_beyond_what_was_allowed_is_named(arguments: dict[str, Any], named: str) -> None:
    """One argument that does not fit is enough, whatever its type; the objection says which, never its value."""
    assert named in (grant().objection(call(arguments)) or "")


@pytest.mark.parametrize(
    "facts",
    [
        None,
        {},
        {"price": 100},
        {"price": 501, "customer": "acme"},
        {"price": "100", "customer": "acme"},
        {"price": 100, "customer": "globex"},
        {"price": 100, "customer": "acme", "blocked": False},
    ],
)
def test_facts_count_as_arguments_do(facts: dict[str, Any] | None) -> None:
    """A missing, further or different fact is not covered: arguments alone are only the model's words."""
    assert grant().objection(call(facts=Facts(facts))) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"agent": "other"},
        {"agent_version": "2"},
        {"above": ()},
        {"above": ("orders", "returns")},
        {"signature": b"\2" * 32},
        {"signature": None},
        {"action": Action("process_refund", "4", ARGUMENTS)},
        {"action": Action("process_refunds", "3", ARGUMENTS)},
        {"rule": RULE.model_copy(update={"checkpoint_id": "other"})},
        {"rule": RULE.model_copy(update={"approvers": ("S0FINANCE", "U0BOB")})},
        {"rule": RULE.model_copy(update={"risk": Risk.CRITICAL})},
        {"rule": RULE.model_copy(update={"allow_grants": False})},
        {"requester": GRACE},
        {"requester": None},
        {"principal": "key:other"},
        {"facts": replace(FACTS, source=FactsSource.PROGRAM)},
        {"facts": replace(FACTS, failed=True)},
    ],
)
def test_another_kind_of_call_is_not_covered(changes: dict[str, Any]) -> None:
    """Agent, versions, the agents above, the whole rule and the requester must be those of the grant."""
    assert grant().objection(call(**changes)) is not None


def test_what_no_grant_covers_is_not_covered_by_one_that_was_made_for_it() -> None:
    """A rule that allows no grants, critical risk and failed facts stand above whatever a grant says."""
    for changes in (
        {"rule": RULE.model_copy(update={"allow_grants": False})},
        {"rule": RULE.model_copy(update={"risk": Risk.CRITICAL})},
        {"facts": replace(FACTS, failed=True)},
    ):
        odd = call(**changes)
        assert grant(kind=odd.kind).objection(odd) == odd.uncoverable is not None


def test_a_grant_for_anyone_covers_every_requester() -> None:
    """On whose behalf a call is asked for matters only where the grant names a person."""
    for requester in (ADA, GRACE, None):
        assert grant(anyone=True, requester=None).objection(call(requester=requester)) is None
    assert grant(requester=None).objection(call()) is not None


@pytest.mark.parametrize("price", [-1, "100", None, True])
def test_what_cannot_be_added_up_is_not_covered(price: Any) -> None:
    """A negative amount would make room for others, and what is no number has no amount."""
    facts = {"price": OneOf((-1, "100", None, True)), "customer": Exact("acme")}
    assert "added up" in (
        grant(facts=facts).objection(call(facts=Facts({"price": price, "customer": "acme"}))) or ""
    )


def test_uses_sum_and_time_end_a_grant() -> None:
    """The last use and the last unit of the sum are allowed, one more is not; at its end it is over."""
    mine = grant()
    assert mine.exhausted(NOON, 2, Decimal(900), Decimal(100)) is None
    assert mine.exhausted(NOON, 3, Decimal(0), Decimal(1)) is not None
    assert mine.exhausted(NOON, 2, Decimal(900), Decimal("100.01")) is not None
    assert mine.exhausted(mine.until, 0, Decimal(0), Decimal(0)) is not None
    assert grant(max_sum=None, sum_of=None).exhausted(NOON, 0, Decimal(10**9), Decimal(0)) is None


def test_sums_are_exact() -> None:
    """Ten times 0.1 is 1, as people count."""
    tenth = call(facts=Facts({"price": 0.1, "customer": "acme"}))
    mine = grant(max_sum=Decimal(1))
    assert mine.exhausted(NOON, 0, 9 * mine.amount(tenth), mine.amount(tenth)) is None


def test_every_granter_has_to_be_somebody_who_could_approve_this_very_call() -> None:
    """One of them who lost the role, cannot be looked up, or had a part in this call is enough."""

    class Reviewed:
        approvers: tuple[str, ...] = ("S0FINANCE",)
        excluded: tuple[Exclusion, ...] = ()

    reviewed = Reviewed()
    fine = Standing(GRACE, frozenset({"S0FINANCE"}))
    assert granters_refusal([fine], reviewed) is None
    assert granters_refusal([fine, Standing(ADA)], reviewed) == Standing(ADA)
    for why in Involvement:
        reviewed.excluded = (Exclusion(GRACE, why),)
        assert granters_refusal([fine], reviewed) == fine


def test_a_grant_is_read_back_from_its_action() -> None:
    """What people approved is all that counts: the action's bytes contain the whole grant."""
    assert Grant.from_action(grant().as_action()) == grant()
    odd = grant(anyone=True, requester=None, facts=None, sum_of=None, max_sum=None)
    assert Grant.from_action(odd.as_action()) == odd


def test_what_is_not_written_as_a_grant_is_refused() -> None:
    """Another action, and a constraint that says more or less than one, is no grant."""
    good = grant().as_action()
    with pytest.raises(ValueError, match="grant"):
        Grant.from_action(Action("process_refund", "3", good.arguments))
    with pytest.raises(ValueError, match="grant"):
        Grant.from_action(Action(good.tool, good.tool_version, {**good.arguments, "also": 1}))
    odd: list[dict[str, Any]] = [
        {},
        {"is": 1, "fits": "x"},
        {"from": 2, "to": 1},
        {"from": 1},
        {"one_of": []},
        {"fits": 1},
    ]
    for written in odd:
        with pytest.raises(ValueError, match=r"constraint|bounds"):
            read_constraint(written)


@pytest.mark.parametrize("pattern", ["a)|(b", "(?x)a#", "((", "[0-9]*)|(.*"])
def test_a_pattern_cannot_break_out_of_the_whole_text(pattern: str) -> None:
    """A pattern counts alone and from end to end, so nothing in it lets another text through."""
    assert not Fits(pattern).allows(FieldValue("b or anything"))


def test_what_is_masked_or_of_another_kind_is_not_freed() -> None:
    """A value that `redact` hides stays exact, and only a number has bounds."""
    bounds = Between(Decimal(1), Decimal(500))
    masked = RULE.model_copy(update={"redact": ("amount",)})
    assert freeing_problem(RULE, "args", "amount", 100, bounds, ()) is None
    assert freeing_problem(masked, "args", "amount", 100, bounds, ()) is not None
    assert freeing_problem(masked, "args", "amount", 100, Exact(100), ()) is None
    assert freeing_problem(RULE, "args", "reason", "late", bounds, ()) is not None


def test_the_bounds_of_the_policy_are_allowed_themselves() -> None:
    """A grant may last as long, and be used as often, as the policy says, and no second or time more."""
    most = GrantLimits(timedelta(days=7), 100)
    assert limits_problem(most, timedelta(days=7), 100, None, None) is None
    assert limits_problem(most, timedelta(days=7, seconds=1), 100, None, None) is not None
    assert limits_problem(most, timedelta(days=7), 101, None, None) is not None


def test_a_choice_is_the_very_same_value() -> None:
    """Python takes true for 1; consent to one is none to the other, and NaN is no number between any bounds."""
    assert OneOf((1, 2)).allows(FieldValue(1))
    assert not OneOf((1, 2)).allows(FieldValue(True))
    assert not OneOf((True,)).allows(FieldValue(1))
    assert not Between(Decimal(0), Decimal(9)).allows(FieldValue(math.nan))


def test_the_request_of_a_grant_is_decided_by_the_same_people_and_offers_nothing_else() -> None:
    """No edit, no escalation and no grant of a grant; approvers and quorum stay."""
    rule = RULE.model_copy(update={"approvals_required": 2, "allow_edit": True, "on_timeout": "escalate"})
    asked = rule_of_grant(replace(call(), rule=rule).rule)
    assert (asked.approvers, asked.approvals_required) == (rule.approvers, 2)
    assert (asked.allow_edit, asked.allow_grants, asked.on_timeout) == (False, False, "expire")


def test_a_description_names_what_is_freed() -> None:
    """People who only see the title know what is open, how often, until when and up to what sum."""
    assert grant().describe() == (
        "Allow similar calls of process_refund (order_id fitting [0-9]+; amount from 1 to 500.5; "
        "reason one of late, broken; price from 0 to 500) for the same requester, 3 times until "
        "2026-11-22 20:00 UTC, facts.price up to 1,000 in total"
    )
    declared = Money.declared(["facts.price"])
    assert (
        "amount from 1 to 500.5; reason one of late, broken; price from 0.00 to 500.00"
        in grant().describe(declared)
    )
    assert grant().describe(declared).endswith("facts.price up to 1,000.00 in total")


def test_money_keeps_its_place_among_the_values_of_a_grant() -> None:
    """The grant's own card shows declared values and bounds as money, wherever a constraint has them."""
    rule = RULE.model_copy(update={"money": ("args.fee", "args.to.fee", "facts.price")})
    money = Money.declared(rule_of_grant(rule).money)
    for path in (
        "args.arguments.fee.is",
        "args.arguments.fee.to",
        "args.arguments.to.is.fee",
        "args.facts.price.from",
    ):
        assert money.below(*path.split(".")).shown(1) == "1.00", path
    for path in ("args.fee", "args.arguments.fee", "args.arguments.amount.is", "args.uses", "args.sum"):
        assert money.below(*path.split(".")).shown(1) is None, path
