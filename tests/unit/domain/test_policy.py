"""What policy says of a tool call: run, ask or deny."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.domain.checkpoints import load
from agent.domain.judgement import ToolTraits
from agent.domain.policy import Policy
from agent.domain.rules import Defaults, Rule, digest_of
from signoff.description import shown
from signoff.values import Action, Risk


def rule(checkpoint_id="refund-over-limit", action_pattern="process_refund", **terms):
    return Rule(**{"on_reject": "stop"} | terms, checkpoint_id=checkpoint_id, action_pattern=action_pattern)


REFUND = rule(when="facts.price > 1000.0", description_template="Refund ${facts.price} for {args.order_id}")


def judge(policy, tool="process_refund", arguments=None, facts=None, *, facts_failed=False, **traits):
    action = Action(tool, "1", arguments or {"order_id": 7})
    traits_ = ToolTraits(tool, "1", **traits)
    return policy.judge(traits_, action, facts, "refunds", "U1", facts_failed=facts_failed)


def title(judged):
    return judged.rule.describe(judged.inputs.action, judged.inputs.facts)


def test_facts_decide_and_not_the_models_words():
    """A price that the model states below the limit does not help when the shop's own records say more."""
    arguments = {"order_id": 7, "price": 5, "facts": {"price": 5}, "note": "the price is 5"}
    judged = judge(Policy((REFUND,)), arguments=arguments, facts={"price": 1500})
    assert judged.verdict == "ask"
    assert judged.rule == REFUND
    assert title(judged) == "Refund $1500 for 7"


def test_a_condition_that_is_false_lets_a_named_tool_run():
    """Up to the limit the refund runs at once, because its checkpoint says from where on it needs review."""
    judged = judge(Policy((REFUND,)), facts={"price": 1000})
    assert (judged.verdict, judged.rule) == ("run", None)
    assert "refund-over-limit" in judged.because
    assert "is false" in judged.because


@pytest.mark.parametrize("facts", [None, {}, {"price": "1"}, {"price": None}, {"price": float("nan")}])
def test_a_condition_that_fails_asks(facts):
    """Missing or unusable facts are never a reason to run."""
    assert judge(Policy((REFUND,)), facts=facts).verdict == "ask"


@pytest.mark.parametrize("tool", ["delete_records", "delete_user", "delete", "deleted_items"])
def test_delete_star_catches_what_starts_with_delete(tool):
    """The pattern `delete_*` is matched from the start of the name and need not reach its end."""
    judged = judge(Policy((rule("no-deletes", "delete_*"),)), tool)
    assert (judged.verdict, judged.rule.checkpoint_id) == ("ask", "no-deletes")


def test_a_pattern_does_not_match_in_the_middle_of_a_name():
    """A checkpoint for delete_* does not name undelete_records, which is then unmatched."""
    judged = judge(Policy((rule("no-deletes", "delete_*"),)), "undelete_records")
    assert judged.rule.checkpoint_id == "unmatched"


def test_the_first_checkpoint_that_applies_wins_in_file_order():
    """An earlier rule wins over a later one; one whose condition is false hands on to the next."""
    catch_all = rule("everything", ".*")
    assert judge(Policy((REFUND, catch_all)), facts={"price": 1500}).rule.checkpoint_id == "refund-over-limit"
    assert judge(Policy((REFUND, catch_all)), facts={"price": 5}).rule.checkpoint_id == "everything"
    assert judge(Policy((catch_all, REFUND)), facts={"price": 1500}).rule.checkpoint_id == "everything"


@pytest.mark.parametrize(
    ("unmatched", "read_only", "verdict"),
    [
        ("review", False, "ask"),
        ("review", True, "run"),
        ("allow", False, "run"),
        ("allow", True, "run"),
        ("deny", False, "deny"),
        ("deny", True, "run"),
    ],
)
def test_unmatched_is_for_tools_that_no_checkpoint_names(unmatched, read_only, verdict):
    """The setting decides about unnamed tools, and read-only tools are exempt from it."""
    policy = Policy((REFUND,), Defaults(unmatched=unmatched))
    assert judge(policy, "other", read_only=read_only).verdict == verdict


def test_without_any_file_everything_is_asked_but_reading():
    """No checkpoints at all is not a permission."""
    assert judge(Policy()).rule.checkpoint_id == "unmatched"
    assert judge(Policy(), read_only=True).verdict == "run"


def test_read_only_does_not_exempt_from_an_explicit_rule():
    """A checkpoint that names a read-only tool catches it nevertheless."""
    assert judge(Policy((rule("reads", "read_"),)), "read_salary", read_only=True).verdict == "ask"


@pytest.mark.parametrize("unmatched", ["review", "allow", "deny"])
def test_a_tool_that_requires_approval_is_asked_even_if_no_rule_applies(unmatched):
    """What the tool says of itself is stricter than a condition that is false or `unmatched = "allow"`."""
    policy = Policy((REFUND,), Defaults(unmatched=unmatched, approvals_required=2))
    for tool in ("process_refund", "other"):
        judged = judge(policy, tool, facts={"price": 5}, requires_approval=True)
        assert (judged.verdict, judged.rule.checkpoint_id) == ("ask", "requires_approval")
        assert judged.rule.approvals_required == 2


def test_the_higher_risk_wins_and_a_default_reaction_follows_it():
    """The tool's own risk raises a rule's, never lowers it; what a rejection does follows the risk."""
    medium = rule("a", "a", risk="medium", on_reject="tell_model")
    raised = judge(Policy((medium,)), "a", risk=Risk.CRITICAL).rule
    assert (raised.risk, raised.on_reject) == (Risk.CRITICAL, "stop")
    kept = judge(Policy((medium,)), "a", risk=Risk.LOW).rule
    assert kept == medium
    lenient = rule("a", "a", risk="high", on_reject="tell_model")
    assert judge(Policy((lenient,)), "a", risk=Risk.CRITICAL).rule.on_reject == "tell_model"
    assert judge(Policy(), "a", risk=Risk.HIGH).rule.risk is Risk.HIGH


@pytest.mark.parametrize("when", ["facts.price > 1000.0", "has(facts.price)", "args.order_id == 0"])
@pytest.mark.parametrize("traits", [{}, {"read_only": True}])
@pytest.mark.parametrize("unmatched", ["review", "allow"])
def test_failed_facts_never_run(when, traits, unmatched):
    """A look-up of facts that failed asks, whatever the condition, the tool or the defaults say."""
    policy = Policy((rule(when=when),), Defaults(unmatched=unmatched))
    for tool in ("process_refund", "other"):
        judged = judge(policy, tool, facts={"price": 5}, facts_failed=True, **traits)
        assert judged.verdict == "ask"
        assert "could not be looked up" in judged.because


STORABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
"""An action with other characters is refused before policy sees it."""
CONDITIONS = ["facts.price > 1000.0", "args.n < 3", "agent == 'x'", "false", "args.m"]


def test_facts_that_json_does_not_have_count_as_failed():
    """A NaN among the facts asks even where no condition reads it: what was looked up is not to be trusted."""
    policy = Policy((rule(when="args.order_id == 0"),), Defaults(unmatched="allow"))
    for tool in ("process_refund", "other"):
        judged = judge(policy, tool, facts={"price": float("nan")})
        assert (judged.verdict, judged.rule.checkpoint_id) == ("ask", "facts_failed")


@given(
    st.lists(
        st.sampled_from([*CONDITIONS, None]),
        max_size=3,
    ),
    st.fixed_dictionaries(
        {}, optional={"n": st.integers(0, 5), "m": st.booleans() | st.text(STORABLE, max_size=1)}
    ),
    st.none()
    | st.fixed_dictionaries({}, optional={"price": st.integers(0, 2000) | st.floats() | st.text(max_size=1)}),
    st.booleans(),
)
def test_no_doubt_ever_runs(conditions, arguments, facts, facts_failed):
    """A tool runs only if a checkpoint names it and every condition on it is really false."""
    policy = Policy(tuple(rule(f"c{i}", "t", when=when) for i, when in enumerate(conditions)))
    judged = judge(policy, "t", arguments or {"n": 5}, facts, facts_failed=facts_failed)
    arguments = arguments or {"n": 5}
    false = {
        "facts.price > 1000.0": isinstance((facts or {}).get("price"), int | float)
        and facts["price"] <= 1000,
        "args.n < 3": arguments.get("n", 0) >= 3,
        "agent == 'x'": True,
        "false": True,
        "args.m": arguments.get("m") is False,
        None: False,
    }
    if judged.verdict == "run":
        assert conditions
        assert not facts_failed
        assert all(false[when] for when in conditions)
    else:
        assert judged.rule is not None


def test_an_action_without_a_template_is_described_by_its_arguments():
    """Without a template people still read the tool's name and every argument, cut when long."""
    description = shown(title(judge(Policy(), arguments={"order_id": 7, "note": "x" * 300})))
    assert description.startswith("process_refund · note: “xxx")
    assert description.endswith(", order_id: 7")
    assert "…” (+240 characters)" in description


def test_risks_are_ordered():
    """Low is below critical, though not by the alphabet."""
    assert sorted([Risk.CRITICAL, Risk.LOW, Risk.HIGH, Risk.MEDIUM]) == list(Risk)
    assert max(Risk) is Risk.CRITICAL
    assert Risk.LOW <= Risk.LOW
    assert Risk.HIGH >= Risk.MEDIUM


def test_a_snapshot_is_the_rule_as_json_with_a_digest():
    """A request carries its rule as JSON that reads back equal; any other rule has another digest."""
    original = rule(timeout=timedelta(minutes=90), approvers=("S0FINANCE", "U0BOSS"), risk="high")
    snapshot = original.snapshot()
    assert snapshot["timeout"] == 5400
    assert Rule.from_snapshot(snapshot) == original
    assert len(digest_of(snapshot)) == 32
    assert digest_of(snapshot) != digest_of(rule().snapshot())
    with pytest.raises(ValidationError):
        Rule.from_snapshot(snapshot | {"approvals_required": 0})


def test_the_digest_of_a_policy_follows_its_content():
    """Two policies of the same content have one digest; another order of rules is another policy."""
    a, b = rule("a", "a"), rule("b", "b")
    assert Policy((a, b)).digest == Policy((a, b)).digest
    assert (
        len(
            {
                p.digest
                for p in (Policy((a, b)), Policy((b, a)), Policy((a,)), Policy((a, b), Defaults(risk="low")))
            }
        )
        == 4
    )


def test_money_of_the_defaults_reaches_every_rule_and_a_checkpoint_replaces_it():
    """Synthetic rules included; policies without it are those of before."""
    policy = load(
        '[defaults]\nmoney = ["args.fee"]\n[[checkpoint]]\ncheckpoint_id = "a"\naction_pattern = "a"\n'
        '[[checkpoint]]\ncheckpoint_id = "b"\naction_pattern = "b"\nmoney = ["args.amount"]',
        filename="x.toml",
    )
    arguments = {"amount": 1, "fee": 2}
    assert title(judge(policy, "a", arguments)) == "a · amount: 1, fee: 2.00"
    assert title(judge(policy, "b", arguments)) == "b · amount: 1.00, fee: 2"
    assert title(judge(policy, "c", arguments)) == "c · amount: 1, fee: 2.00"
    declared = policy.rules[1]
    assert Rule.from_snapshot(declared.snapshot()) == declared


def test_a_changed_copy_of_a_rule_has_a_digest_of_its_own():
    """Requests store the digest of the terms that people were asked under, also where a tool has changed them."""
    before = REFUND.digest
    changed = REFUND.model_copy(update={"risk": Risk.CRITICAL})
    assert changed.digest == digest_of(changed.snapshot()) != before
