"""The checkpoints file: read in full, or refused with file and line."""

import re
import time
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.checkpoints import load
from agent.domain.errors import PolicyError
from agent.domain.judgement import ToolTraits
from agent.domain.policy import Policy
from agent.domain.tool_outline import explain
from signoff.values import Risk

ROOT = Path(__file__).parents[3]


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(text, filename="checkpoints.toml")
    return caught.value.problems


def checkpoint(lines: str = "") -> str:
    return f'[[checkpoint]]\ncheckpoint_id = "c"\naction_pattern = "t"\n{lines}\n'


def test_the_files_own_example_is_enforced_as_written():
    """Every key that the file may have ends up in the rule, and defaults fill the rest."""
    text = """
    [defaults]
    channel = "C0REVIEW"
    timeout = "1h30m"
    approvers = ["S0REVIEWERS"]
    unmatched = "deny"
    admin_channel = "C0OPS"
    default_agent = "refunds"
    cards_per_minute = 25

    [[checkpoint]]
    checkpoint_id = "refund-over-limit"
    action_pattern = "process_refund"
    when = "facts.price > 1000.0"
    description_template = "Refund ${facts.price} for order {args.order_id}"
    risk = "high"
    approvers = ["S0FINANCE", "U0BOSS"]
    notify = ["S0FINANCE"]
    approvals_required = 2
    timeout_seconds = 90
    prevent_self_review = false
    link_template = "https://shop.example/orders/{args.order_id}"
    reason_required = ["reject"]
    reject_reasons = ["Wrong amount", "Wrong customer"]
    allow_edit = true
    editor_may_approve = true
    remind_at = [0.5, 0.9]
    on_timeout = "escalate"
    escalate_to = ["U0CEO"]
    redact = ["card_number", "args.to.iban"]

    [[checkpoint]]
    checkpoint_id = "rest"
    action_pattern = ".*"
    """
    policy = load(text, filename="f")
    first, second = policy.rules
    assert (policy.defaults.unmatched, policy.defaults.default_agent) == ("deny", "refunds")
    assert (first.checkpoint_id, first.risk, first.channel) == ("refund-over-limit", Risk.HIGH, "C0REVIEW")
    assert (first.approvers, first.notify) == (("S0FINANCE", "U0BOSS"), ("S0FINANCE",))
    assert (first.approvals_required, first.timeout) == (2, timedelta(seconds=90))
    assert (first.prevent_self_review, first.on_reject) == (False, "stop")
    assert first.link_template == "https://shop.example/orders/{args.order_id}"
    assert (first.reason_required, first.reject_reasons) == (("reject",), ("Wrong amount", "Wrong customer"))
    assert (first.allow_edit, first.editor_may_approve) == (True, True)
    assert (first.remind_at, first.on_timeout, first.escalate_to) == ((0.5, 0.9), "escalate", ("U0CEO",))
    assert first.redact == ("card_number", "args.to.iban")
    assert (second.allow_edit, second.remind_at, second.on_timeout) == (False, (), "expire")
    assert (policy.defaults.admin_channel, policy.defaults.cards_per_minute) == ("C0OPS", 25)
    assert (second.approvers, second.timeout) == (("S0REVIEWERS",), timedelta(minutes=90))
    assert (second.prevent_self_review, second.on_reject, second.when) == (True, "tell_model", None)


def test_the_projects_own_file_is_valid():
    """The file in the repository catches a large refund and every delete, and lets a small refund run."""
    policy = load((ROOT / "checkpoints.toml").read_text(), filename="checkpoints.toml")
    assert "refund-over-limit" in explain(policy, ToolTraits("process_refund", "1"))
    assert "delete-anything" in explain(policy, ToolTraits("delete_records", "1"))


def test_terms_of_the_defaults_reach_every_rule():
    """What [defaults] says of reasons, edits, time and redaction holds for checkpoints and for unmatched tools."""
    lines = """[defaults]
    approvers = ["S0REVIEWERS"]
    reason_required = ["approve"]
    allow_edit = true
    remind_at = [0.5]
    on_timeout = "escalate"
    escalate_to = ["U0BOSS"]
    redact = ["iban"]
    """
    policy = load(lines + checkpoint(), filename="f")
    for rule in (policy.rules[0], policy.synthetic("unmatched", ToolTraits("other", "1"))):
        assert (rule.reason_required, rule.allow_edit, rule.remind_at) == (("approve",), True, (0.5,))
        assert (rule.on_timeout, rule.escalate_to, rule.redact) == ("escalate", ("U0BOSS",), ("iban",))


def test_an_empty_file_asks_for_everything():
    """A file without a word is the same policy as none."""
    assert load("", filename="f") == Policy()


@pytest.mark.parametrize(
    ("risk", "on_reject"),
    [("low", "tell_model"), ("medium", "tell_model"), ("high", "stop"), ("critical", "stop")],
)
def test_a_rejection_stops_the_run_from_high_risk_on(risk, on_reject):
    """Without a setting for rejections, risk decides; with one, the setting does."""
    assert load(checkpoint(f'risk = "{risk}"'), filename="f").rules[0].on_reject == on_reject
    spoken = load(f'[defaults]\non_reject = "tell_model"\n{checkpoint(f"risk = {risk!r}")}', filename="f")
    assert spoken.rules[0].on_reject == "tell_model"


@pytest.mark.parametrize(
    ("lines", "line", "problem"),
    [
        ('aprovers = ["U01"]', 4, 'unknown key "aprovers" (did you mean "approvers"?)'),
        ("xyzzy = 1", 4, 'unknown key "xyzzy"'),
        ('unmatched = "deny"', 4, '"unmatched" belongs in [defaults]'),
        ('\n# risk = 1\nrisk = "hihg"', 6, '"risk" must be one of low, medium, high, critical'),
        ("risk = 3", 4, '"risk" must be one of'),
        ("approvers = []", 4, '"approvers" must not be empty'),
        ('approvers = ["finance"]', 4, "'finance' is not a Slack user id"),
        ('approvers = ["C01"]', 4, "'C01' is not a Slack user id"),
        ('approvers = "U01"', 4, '"approvers" must be a list'),
        ('notify = ["channel"]', 4, "'channel' is not a Slack user id"),
        ("approvals_required = 0", 4, "1 or more"),
        ("approvals_required = true", 4, "1 or more"),
        ("approvals_required = 1.5", 4, "1 or more"),
        (
            'approvers = ["U01", "U02"]\napprovals_required = 3',
            5,
            "3 approvals are required, but only 2 can be given",
        ),
        ('approvers = ["U01", "U01"]\napprovals_required = 2', 5, "only 1 can be given"),
        ('approvers = ["U01"]', 4, "too few are left to decide"),
        ('timeout = "24 hours"', 4, "must be a time such as"),
        ('timeout = ""', 4, "must be a time such as"),
        ("timeout = true", 4, "must be a time such as"),
        ('timeout = "0s"', 4, "between 1 second and 365 days"),
        ('timeout = "366d"', 4, "between 1 second and 365 days"),
        ("timeout = nan", 4, "must be a time such as"),
        ('timeout_seconds = "3 days"', 4, "or a number of seconds"),
        ('timeout = "1h"\ntimeout_seconds = 3600', 5, "not both"),
        ('prevent_self_review = "yes"', 4, "must be true or false"),
        ('on_reject = "ask"', 4, "must be one of stop, tell_model"),
        ('when = "facts.price >"', 4, "column 14"),
        ('when = "fact.price > 1"', 4, 'unknown variable "fact"'),
        ('description_template = "{order_id}"', 4, "must start with args or facts"),
        ('channel = ""', 4, "must be a text that is not empty"),
        ('link_template = "https://{args.host}/x"', 4, "your own host"),
        ('link_template = "shop.example/x"', 4, "your own host"),
        ('reason_required = ["reject", "maybe"]', 4, "must be one of approve, reject"),
        ('reason_required = "reject"', 4, "must be a list"),
        ('reject_reasons = ["a", "a"]', 4, "the same reason twice"),
        (f'reject_reasons = ["{"x" * 76}"]', 4, "at most 75 characters"),
        (f"reject_reasons = {[str(n) for n in range(21)]}", 4, "at most 20 entries"),
        ('reject_reasons = [" "]', 4, "not empty"),
        ("remind_at = [0.5, 0.5]", 4, "must rise"),
        ("remind_at = [1.0]", 4, "between 0 and 1"),
        ("remind_at = [0]", 4, "between 0 and 1"),
        ("remind_at = [true]", 4, "between 0 and 1"),
        ("remind_at = [nan]", 4, "between 0 and 1"),
        ('allow_edit = "yes"', 4, "must be true or false"),
        ('on_timeout = "escalate"', 4, 'needs "escalate_to"'),
        ('on_timeout = "escalate"\nescalate_to = []', 5, "must not be empty"),
        ('escalate_to = ["U0BOSS"]', 4, "is used only with"),
        ('on_timeout = "escalate"\nescalate_to = ["channel"]', 5, "is not a Slack user id"),
        (
            'approvers = ["S01", "U0BOSS"]\non_timeout = "escalate"\nescalate_to = ["U0BOSS"]',
            6,
            "only people who may already decide",
        ),
        ('redact = ["a..b"]', 4, "is not a name such as card_number"),
        ('redact = ["a b"]', 4, "is not a name such as card_number"),
        (
            'redact = ["card"]\ndescription_template = "Charge {args.to.card}"',
            5,
            "would show args.to.card",
        ),
        (
            'redact = ["facts.owner"]\nlink_template = "https://x.example/{facts.owner.name}"',
            5,
            "would show facts.owner.name",
        ),
        ('admin_channel = "C01"', 4, '"admin_channel" belongs in [defaults]'),
        (
            'approvers = ["U01", "U02"]\nallow_edit = true',
            5,
            "when the requester and the person who edits are two of the 2 approvers",
        ),
        ('channel = "a\\u0000"', 4, "NUL"),
    ],
)
def test_what_cannot_be_enforced_is_refused_with_its_line(lines, line, problem):
    """A wrong or unenforced value names file, line, checkpoint and key, in one line."""
    (found,) = problems(checkpoint(lines))
    assert found.startswith(f'checkpoints.toml:{line}: checkpoint "c": ')
    assert problem in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[[checkpoints]]\nx = 1",
            'checkpoints.toml:1: unknown table "checkpoints" (did you mean "checkpoint"?)',
        ),
        ("\nrisk = 'low'", 'checkpoints.toml:2: unknown table "risk"'),
        ("[checkpoint]\nx = 1", "checkpoints.toml:1: write [[checkpoint]], with two brackets"),
        (
            "\n[defaults]\nwhen = 'true'",
            'checkpoints.toml:3: [defaults]: "when" belongs in a [[checkpoint]]',
        ),
        ("[defaults]\nunmatched = 'ask'", 'checkpoints.toml:2: [defaults]: "unmatched" must be one of'),
        (
            "[defaults]\n\nexecute_within = true",
            'checkpoints.toml:3: [defaults]: "execute_within" must be a time',
        ),
        (
            "[defaults]\ncards_per_minute = 0",
            'checkpoints.toml:2: [defaults]: "cards_per_minute" must be a whole number from 1 to 60',
        ),
        (
            "[defaults]\nemail = ['finance']",
            "checkpoints.toml:2: [defaults]: \"email\" 'finance' is not an e-mail address",
        ),
        ("defaults = 3", "checkpoints.toml:1: [defaults]: must be a table"),
        (
            "[[checkpoint]]\ncheckpoint_id = 'c'",
            'checkpoints.toml:1: checkpoint "c": "action_pattern" is missing',
        ),
        (
            "\n[[checkpoint]]\naction_pattern = 'c'",
            'checkpoints.toml:2: checkpoint #1: "checkpoint_id" is missing',
        ),
        (
            "[[checkpoint]]\ncheckpoint_id = 'c'\naction_pattern = '(a'",
            'checkpoints.toml:3: checkpoint "c": "action_pattern" is not a regular expression: unclosed group',
        ),
        (
            "[[checkpoint]]\ncheckpoint_id = 'unmatched'\naction_pattern = 'a'",
            'checkpoints.toml:2: checkpoint "unmatched": "checkpoint_id" "unmatched" is a name that',
        ),
        ("[defaults]\nrisk = ", "checkpoints.toml:2: risk has no value"),
        (
            "[defaults]\nrisk = 'low'\nrisk = 'high'",
            "checkpoints.toml:3: risk is written twice in this table; keep one",
        ),
        ("x = [1,", "checkpoints.toml:1: Invalid value (at the end)"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(text, expected):
    """Broken syntax, unknown tables and missing keys name the line too."""
    assert problems(text)[0].startswith(expected)


@pytest.mark.parametrize(
    "line",
    [
        "a ={0}x{0}'",
        "a ={0}'",
        "a{0}!",
        "{0}a{0}!",
        "[a{0}!",
        "[[ a{0}]{0}!",
        "[{0}a{0}]",
        "a{0}:{0}x",
        "a = [{0}x{0}",
        "a = {0}#{0}",
        'a = "{0}',
    ],
)
def test_a_long_line_is_refused_at_once(line: str) -> None:
    """However many spaces are where something is wrong, the reason comes without a wait."""
    began = time.process_time()
    [found] = problems(line.format(" " * 20_000))
    assert found.startswith("checkpoints.toml:1: ")
    assert time.process_time() - began < 2


def test_the_same_id_twice_names_both_lines():
    """Two checkpoints of one name could not be distinguished in the audit log."""
    (found,) = problems(checkpoint() + checkpoint())
    assert found == 'checkpoints.toml:6: checkpoint "c": the id is already used in line 2'


def test_an_impossible_quorum_is_found_across_defaults_and_checkpoint():
    """The quorum of the defaults is held against the people that a checkpoint lists."""
    text = '[defaults]\napprovals_required = 2\napprovers = ["S0GROUP"]\n' + checkpoint('approvers = ["U01"]')
    assert problems(text) == [
        'checkpoints.toml:7: checkpoint "c": 2 approvals are required, but only 1 can be given'
    ]
    load(text.replace('"U01"', '"U01", "channel"'), filename="f")


def test_all_problems_are_told_at_once_in_the_order_of_lines():
    """One attempt reports everything that is wrong with the file."""
    found = problems("[defaults]\nfoo = 1\n" + checkpoint('risk = "x"\nbar = 2') + "[other]\n")
    assert [line.split(":")[1] for line in found] == ["2", "6", "7", "8"]


def test_strings_and_comments_do_not_mislead_about_lines():
    """Headers and keys inside texts, arrays and comments are not taken for real ones."""
    text = '''# [[checkpoint]]
[[checkpoint]]
checkpoint_id = "a" # risk = "x"
action_pattern = "a[#]"
description_template = """
[[checkpoint]]
risk = "x"
"""
approvers = [ # two
  "U01", "S01]", # [[
]
"risk" = "x"
[ [checkpoint] ]
'''.replace("[ [checkpoint] ]", "[[ checkpoint ]]")
    found = problems(text + "checkpoint_id = 'b'\naction_pattern = '''b'''\n'timeout' = true\n")
    assert [line.split(":")[1] for line in found] == ["9", "12", "16"]


@pytest.mark.parametrize(
    ("spelled", "seconds"),
    [("24h", 86400), ("30m", 1800), ("90s", 90), ("7d", 604800), ("1h30m", 5400), ("365d", 31536000)],
)
def test_times_are_written_with_units(spelled, seconds):
    """A window is written in days, hours, minutes and seconds."""
    assert load(checkpoint(f'timeout = "{spelled}"'), filename="f").rules[0].timeout == timedelta(
        seconds=seconds
    )


@given(st.text(alphabet="[]{}=\"'#,.\n ab1checkpointdefaults_", max_size=60))
def test_any_text_is_a_policy_or_a_policy_error(text):
    """No file, however broken, gives a traceback instead of its line."""
    try:
        load(text, filename="f")
    except PolicyError as error:
        found = error.problems
    else:
        return
    assert found
    assert all(re.match(r"f:\d+: ", line) for line in found)


@pytest.mark.parametrize(
    ("traits", "expected"),
    [
        (
            ToolTraits("process_refund", "1"),
            'people are asked under "limit" when facts.price > 1000.0, else runs',
        ),
        (
            ToolTraits("process_refund", "1", requires_approval=True),
            (
                'people are asked under "limit" when facts.price > 1000.0, else people are asked under the '
                "defaults, because the tool requires approval"
            ),
        ),
        (ToolTraits("delete_records", "1", read_only=True), 'people are asked under "deletes"'),
        (ToolTraits("look", "1", read_only=True), "runs, because it is read-only"),
        (ToolTraits("other", "1"), "people are asked under the defaults, because no checkpoint names it"),
    ],
)
def test_explain_says_which_checkpoint_catches_a_tool(traits, expected):
    """The check command prints for each tool which rule catches it, and what happens otherwise."""
    text = """
    [[checkpoint]]
    checkpoint_id = "limit"
    action_pattern = "process_refund"
    when = "facts.price > 1000.0"
    [[checkpoint]]
    checkpoint_id = "deletes"
    action_pattern = "delete_*"
    """
    assert explain(load(text, filename="f"), traits) == f"{traits.name}: {expected}"


GRANTS = '[grants]\nmax_for = "7d"\nmax_uses = 50\n'


def test_grants_are_read_with_their_bounds_and_patterns() -> None:
    """The table bounds them, a checkpoint allows them, and names the texts that may be left open."""
    policy = load(
        GRANTS
        + checkpoint('allow_grants = true\ngrant_free = { order_id = "[0-9]+", "facts.region" = "eu|us" }'),
        filename="checkpoints.toml",
    )
    assert policy.grants is not None
    assert (policy.grants.max_for, policy.grants.max_uses) == (timedelta(days=7), 50)
    [rule] = policy.rules
    assert rule.allow_grants
    assert dict(rule.grant_free) == {"args.order_id": "[0-9]+", "facts.region": "eu|us"}
    assert Policy(policy.rules, policy.defaults).digest != policy.digest


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (checkpoint("allow_grants = true"), 'needs the table [grants], with "max_for" and "max_uses"'),
        (GRANTS + checkpoint('allow_grants = true\nrisk = "critical"'), "critical actions allow no grants"),
        (GRANTS + checkpoint('grant_free = { a = "x" }'), 'used only with "allow_grants = true"'),
        (
            GRANTS + checkpoint('allow_grants = true\nredact = ["card"]\ngrant_free = { card = ".*" }'),
            'would leave args.card open, which "redact" hides',
        ),
        (GRANTS + checkpoint('allow_grants = true\ngrant_free = { a = "(" }'), "has no pattern for a"),
        (GRANTS + checkpoint('allow_grants = true\ngrant_free = { a = "x)|(y" }'), "has no pattern for a"),
        (
            GRANTS + checkpoint('allow_grants = true\ngrant_free = { "b.c.d" = "x" }'),
            "is not an argument such as",
        ),
        (GRANTS + checkpoint("allow_grants = 1"), "must be true or false"),
        ('[grants]\nmax_for = "7d"\n', '[grants]: "max_uses" is missing'),
        ('[grants]\nmax_for = "7d"\nmax_uses = 0\n', "a whole number from 1 to 10,000"),
        ('[grants]\nmax_for = "7d"\nmax_uses = 5\nmax_sum = 3\n', 'unknown key "max_sum"'),
        ("[defaults]\nallow_grants = true\n", "belongs in a [[checkpoint]]"),
    ],
)
def test_grants_that_could_not_be_bounded_are_refused(text: str, problem: str) -> None:
    """No bound, no grant; none for critical actions; nothing open that nobody sees or that is no pattern."""
    assert any(problem in line for line in problems(text)), problems(text)
