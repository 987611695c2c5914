"""Checkpoints that are only observed: they decide nothing, and say what they would have done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.domain.checkpoints import load
from agent.domain.errors import PolicyError
from agent.domain.judgement import Inputs, ToolTraits
from agent.domain.observation import MAX_LINES, Observation, ObservedCount, described, summary
from agent.domain.policy import Policy
from agent.domain.replay import RecordedJudgement, Totals, replay
from agent.domain.tool_outline import explain
from agent.store.ids import new_id
from signoff.values import Action

NOW = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
OBSERVED = 'mode = "observe"\nobserve_until = 2026-12-20\n'


def checkpoint(name: str = "big", pattern: str = "refund", lines: str = "") -> str:
    return f'[[checkpoint]]\ncheckpoint_id = "{name}"\naction_pattern = "{pattern}"\n{lines}'


def read(text: str, now: datetime | None = NOW) -> Policy:
    return load(text, filename="c.toml", now=now)


def observation(policy: Policy, amount: int, tool: str = "refund") -> Observation:
    judged = policy.judge(ToolTraits(tool, "1"), Action(tool, "1", {"amount": amount}), None, "shop", None)
    (seen,) = judged.observed
    return seen


@pytest.mark.parametrize(
    ("lines", "line", "problem"),
    [
        ('mode = "observe"', 4, 'is "observe" and so needs "observe_until"'),
        ('observe_until = 2026-12-20\nmode = "observe"\nmoode = 1', 6, 'unknown key "moode"'),
        ("observe_until = 2026-12-20", 4, 'is used only with mode = "observe"'),
        ('mode = "enforce"\nobserve_until = 2026-12-20', 5, 'is used only with mode = "observe"'),
        ('mode = "observe"\nobserve_until = 2026-12-24', 5, "must be at most 30 days ahead"),
        ('mode = "observe"\nobserve_until = "2026-12-23T09:31:00Z"', 5, "must be at most 30 days ahead"),
        ('mode = "observe"\nobserve_until = "soon"', 5, "must be a date such as"),
        ('mode = "observe"\nobserve_until = 30', 5, "must be a date such as"),
        ('mode = "watch"\nobserve_until = 2026-12-20', 4, "must be one of enforce, observe"),
    ],
)
def test_an_observation_without_a_near_end_is_refused(lines: str, line: int, problem: str) -> None:
    """The file is not loaded, and the line that has to change is named."""
    with pytest.raises(PolicyError) as caught:
        read(checkpoint(lines=lines))
    (said,) = caught.value.problems
    assert said.startswith(f"c.toml:{line}: ")
    assert problem in said


@pytest.mark.parametrize(
    ("written", "until"),
    [
        ("2026-12-20", datetime(2026, 12, 20, tzinfo=UTC)),
        ('"2026-12-20"', datetime(2026, 12, 20, tzinfo=UTC)),
        ("2026-12-20T10:00:00", datetime(2026, 12, 20, 10, tzinfo=UTC)),
        ("2026-12-20T10:00:00+02:00", datetime(2026, 12, 20, 8, tzinfo=UTC)),
        ("2026-12-23T09:30:00Z", NOW + timedelta(days=30)),
        ("2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_an_end_is_a_date_or_a_time(written: str, until: datetime) -> None:
    """A date ends at its beginning, in UTC; one that is past loads, so that a service can start after it."""
    policy = read(checkpoint(lines=f'mode = "observe"\nobserve_until = {written}'))
    assert [each.until for each in policy.observed] == [until]
    assert policy.rules == ()


def test_a_policy_that_was_applied_is_loaded_whatever_the_clock_says() -> None:
    """Only what is yet to be applied is held against the clock of this machine."""
    far = checkpoint(lines='mode = "observe"\nobserve_until = 2030-01-01')
    assert read(far, now=None).observed


def test_what_is_observed_is_part_of_the_digest() -> None:
    """Another end, or none, is another policy; the checkpoint's own version stays."""
    first, second = (read(checkpoint(lines=OBSERVED.replace("20\n", day))) for day in ("20\n", "21\n"))
    assert len({first.digest, second.digest, Policy().digest}) == 3
    assert first.observed[0].version == second.observed[0].version
    assert (
        first.observed[0].version != read(checkpoint(lines=f'risk = "high"\n{OBSERVED}')).observed[0].version
    )


@pytest.mark.parametrize(
    ("others", "amount", "applies", "verdict"),
    [
        ("", 500, True, "ask"),
        ("", 5, False, "run"),  # nothing else names the tool, so `unmatched` would hold no more
        (checkpoint("all"), 5, False, "ask"),
        (checkpoint("all"), 500, True, "ask"),
        (checkpoint("small", lines='when = "args.amount < 3"\n'), 5, False, "run"),
    ],
)
def test_what_a_checkpoint_would_have_done(others: str, amount: int, applies: bool, verdict: str) -> None:
    """Whether it would have asked, and what the verdict would be with it in its place in the file."""
    seen = observation(read(others + checkpoint(lines=f'when = "args.amount > 100"\n{OBSERVED}')), amount)
    assert (seen.checkpoint_id, seen.applies, seen.verdict) == ("big", applies, verdict)


def test_its_place_in_the_file_counts() -> None:
    """What an earlier checkpoint lets pass, a later one may still ask about."""
    watched = checkpoint(lines=f'when = "false"\n{OBSERVED}')
    later = checkpoint("later", lines='when = "args.amount > 1"\n')
    for text in (watched + later, later + watched):
        assert observation(read(text), 5).verdict == "ask"
        assert observation(read(text), 1).verdict == "run"


def test_the_outline_of_a_tool_names_what_is_observed() -> None:
    """`signoff check` lists it apart from what decides."""
    lines = explain(read(checkpoint(lines=f'when = "args.n > 1"\n{OBSERVED}')), ToolTraits("refund", "1"))
    assert lines == (
        "refund: people are asked under the defaults, because no checkpoint names it; "
        'observed until 2026-12-20 00:00 UTC: "big" when args.n > 1'
    )


CONDITIONS = ["args.amount > 100", "facts.price > 100", "false", "args.missing", "requester == 'U1'"]
RULES = st.lists(
    st.tuples(
        st.sampled_from(["refund", "delete", ".*"]),
        st.sampled_from([None, *CONDITIONS]),
        st.sampled_from(["low", "critical"]),
        st.booleans(),
    ),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(
    rules=RULES,
    unmatched=st.sampled_from(["review", "allow", "deny"]),
    tool=st.builds(
        ToolTraits,
        st.sampled_from(["refund", "delete", "read"]),
        st.just("1"),
        requires_approval=st.booleans(),
        read_only=st.booleans(),
    ),
    amount=st.sampled_from([5, 500]),
    price=st.sampled_from([None, 5.0, 500.0]),
    failed=st.booleans(),
)
def test_the_verdict_is_that_of_the_policy_without_observed_checkpoints(
    rules: list[tuple[str, str | None, str, bool]],
    unmatched: str,
    tool: ToolTraits,
    amount: int,
    price: float | None,
    failed: bool,
) -> None:
    """Whatever is observed: verdict, rule, reason and title are those of the file without it."""

    def policy(*, with_observed: bool) -> Policy:
        text = f'[defaults]\nunmatched = "{unmatched}"\n'
        for number, (pattern, when, risk, observed) in enumerate(rules):
            lines = (
                f'risk = "{risk}"\n' + (f'when = "{when}"\n' if when else "") + (OBSERVED if observed else "")
            )
            text += checkpoint(f"c{number}", pattern, lines) if with_observed or not observed else ""
        return read(text)

    action = Action(tool.name, "1", {"amount": amount})
    facts = None if price is None else {"price": price}
    both = (policy(with_observed=True), policy(with_observed=False))
    seen, alone = (each.judge(tool, action, facts, "shop", "U1", facts_failed=failed) for each in both)
    assert seen == alone
    assert alone.observed == ()
    assert both[0].reads_facts(tool.name) == both[1].reads_facts(tool.name)
    names = [pattern for pattern, *_, observed in rules if observed and pattern in (tool.name, ".*")]
    assert len(seen.observed) == len(names)


def test_a_replay_counts_what_would_be_observed() -> None:
    """Beside the verdicts, what an observed checkpoint of the other file would have asked."""
    large, watched = (f'when = "args.amount > {limit}"\n' for limit in (1000, 100))
    policy = read(checkpoint("all", lines=large) + checkpoint(lines=watched + OBSERVED))
    recorded = [
        RecordedJudgement(
            new_id(),
            NOW,
            Inputs(ToolTraits("refund", "1"), Action("refund", "1", {"amount": amount}), None, "shop", None),
            "run",
            None,
            None,
            None,
        )
        for amount in (50, 500, 5000)
    ]
    totals = Totals()
    assert len(list(replay(policy, recorded, totals))) == 1
    assert described(totals.observed["big"]) == "would have asked 2 of 3 calls, of which 1 were asked anyway"


def test_a_summary_is_a_line_for_each() -> None:
    """With what would run without a person, and no more lines than fit."""
    counts = [ObservedCount(f"c{n}", "v", 1_200, 30, 12, 4) for n in range(MAX_LINES + 2)]
    lines = summary(counts).splitlines()
    assert lines[0] == (
        "c0: would have asked 30 of 1,200 calls, of which 12 were asked anyway; "
        "4 that were asked would run without a person"
    )
    assert (len(lines), lines[-1]) == (MAX_LINES + 1, "and 2 more")
    assert described(ObservedCount("c", "v", 1)) == "would have asked 0 of 1 call"
