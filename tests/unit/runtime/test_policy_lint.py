"""What a checkpoints file names that no tool here has."""

from __future__ import annotations

import pytest

from agent.domain import checkpoints
from agent.runtime.agents import Agent, Registry
from agent.runtime.checks.policy_lint import few_reviewers, lint_policy, user_groups
from agent.runtime.tool import Tool


def refund(order_id: int, amount: float) -> str:
    """Pays back."""
    return f"{order_id} {amount}"


def look_up(order_id: int) -> dict[str, float]:
    return {"price": float(order_id)}


REGISTRY = Registry(
    [
        Agent("refunds", "Refund.", [Tool(refund, facts=look_up)]),
        Agent("plain", "Pay.", [Tool(refund, name="pay")]),
    ]
)


FILE = "checkpoints.toml"
YEARS = ("'2024'", "'2025'")
WHEN = "args.date >= '2024' && '2025' > args.date"


def findings(**terms: str) -> list[str]:
    lines = "".join(f"{key} = '''{value}'''\n" for key, value in ({"checkpoint_id": "x"} | terms).items())
    policy = checkpoints.load(f"[[checkpoint]]\n{lines}", filename=FILE)
    return lint_policy(policy, REGISTRY, FILE)


@pytest.mark.parametrize(
    "terms",
    [
        {"action_pattern": "refund"},
        {"action_pattern": ".*", "when": "args.order_id > 3.0"},
        {"action_pattern": "refund", "when": "facts.price > 3.0 || args.amount > 3.0"},
        {"action_pattern": "refund", "when": "string(args.order_id) == '7' || args.order_id > 7"},
        {"action_pattern": "refund", "when": "string(args.order_id) > '5' || facts.day > '2024-01-01'"},
        {"action_pattern": "refund", "timeout": "60s"},
        {"action_pattern": "pay", "when": "has(args.reason) && args.reason == 'args.nothing'"},
        {"action_pattern": "refund", "when": "facts.price > 3.0 // of args.order"},
        {"action_pattern": "refund", "description_template": "Refund {args.order_id} of {facts.price}"},
    ],
    ids=str,
)
def test_what_fits_is_not_mentioned(terms: dict[str, str]) -> None:
    """Arguments that the tool has, facts where it looks some up, names asked for with `has`, words in quotes."""
    assert findings(**terms) == []


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"action_pattern": "refnud"}, 'matches none of the loaded tools (did you mean "refund"?)'),
        (
            {"action_pattern": "refnud", "mode": "observe", "observe_until": "2026-12-20"},
            "none of the loaded tools",
        ),
        (
            {"action_pattern": "pay", "when": "args.amuont > 3.0"},
            '"when" looks at args.amuont, but pay has no such',
        ),
        (
            {"action_pattern": "pay", "when": r"requester != r'\' && args.amuont != 'x'"},
            '"when" looks at args.amuont',
        ),
        (
            {"action_pattern": "pay", "when": "facts.price > 3.0"},
            "but pay looks up no facts, so that it always asks",
        ),
        (
            {"action_pattern": "pay", "description_template": "{args.order}"},
            '"description_template" fills in args.order',
        ),
        (
            {"action_pattern": "pay", "link_template": "https://example.com/{args.order}"},
            '"link_template" fills in',
        ),
        (
            {"action_pattern": "refund", "when": 'args.order_id == "7"'},
            '"when" compares args.order_id with "7", but in refund it is a whole number; write 7',
        ),
        (
            {"action_pattern": "refund", "when": "'7' != args.order_id"},
            "compares args.order_id with '7', but in refund it is a whole number; write 7",
        ),
        (
            {"action_pattern": "refund", "when": 'args.order_id > "7"'},
            'compares args.order_id with "7", but in refund it is a whole number; write 7',
        ),
        (
            {"action_pattern": "refund", "when": 'facts.price >\n"1000"'},
            'compares facts.price with the text "1000", letter by letter; if it is a number, write 1000',
        ),
        (
            {"action_pattern": "refund", "when": "facts.tier == '1' || '5.50' <= facts.price"},
            "compares facts.price with the text '5.50', letter by letter; if it is a number, write 5.50",
        ),
        ({"action_pattern": "pay", "when": "args.amount == true"}, "with true, but in pay it is a number"),
        (
            {"action_pattern": "refund", "timeout": "24s"},
            '"timeout" is 24 seconds, in which hardly anybody can decide; 24 hours are "24h"',
        ),
    ],
    ids=str,
)
def test_what_fits_no_tool_is_named(terms: dict[str, str], words: str) -> None:
    """Each with its checkpoint, its key and the name that is probably misspelt."""
    [sentence] = findings(**terms)
    line = 2 + list(terms).index(next(key for key in reversed(terms) if f'"{key}"' in sentence)) + 1
    assert sentence.startswith(f'{FILE}:{line}: checkpoint "x": ')
    assert words in sentence


def test_a_bound_in_quotes_fits_an_argument_that_is_a_text() -> None:
    """A year or a version is compared letter by letter on purpose; of a tool that is not loaded nobody knows."""

    def export(date: str) -> str:
        return date

    rule = f"[[checkpoint]]\ncheckpoint_id = 'x'\naction_pattern = 'export'\nwhen = {WHEN!r}\n"
    policy = checkpoints.load(rule, filename=FILE)
    assert lint_policy(policy, Registry([Agent("a", "Export.", [Tool(export)])]), FILE) == []
    told = lint_policy(policy, Registry(), FILE)
    for year, line in zip(YEARS, told, strict=True):
        assert f"compares args.date with the text {year}, letter by letter" in line


@pytest.mark.parametrize(("named", "said"), [("refunds", False), ("refnds", True)])
def test_a_default_agent_that_is_not_loaded_is_named(named: str, said: bool) -> None:
    """Nobody would receive what people write to the app itself."""
    policy = checkpoints.load(f'[defaults]\ndefault_agent = "{named}"\n', filename="c.toml")
    assert any("default_agent" in sentence for sentence in lint_policy(policy, REGISTRY, "c.toml")) is said


def test_without_agents_nothing_is_said() -> None:
    """Where programs elsewhere do everything, no checkpoint has a tool here."""
    policy = checkpoints.load(
        '[[checkpoint]]\ncheckpoint_id = "x"\naction_pattern = "y"\n', filename="c.toml"
    )
    assert lint_policy(policy, Registry(), "c.toml") == []


@pytest.mark.parametrize(
    ("terms", "path"),
    [
        ({"action_pattern": "refund", "when": "args.amount > 3.0"}, "args.amount"),
        ({"action_pattern": "refund", "when": "args.order.total_price > 3.0"}, "args.order.total_price"),
        ({"action_pattern": "refund", "when": "has(args.row_count) && args.row_count > 5"}, "args.row_count"),
        ({"action_pattern": "pay", "when": "args.amount > 3.0"}, None),  # it looks up no facts
        ({"action_pattern": "refund", "when": "args.order_id == 'args.amount'"}, None),
    ],
    ids=str,
)
def test_a_bound_on_what_the_model_says_is_named(terms: dict[str, str], path: str | None) -> None:
    """Money and counts in arguments, where the tool knows better."""
    found = [sentence for sentence in findings(**terms) if "which the model writes" in sentence]
    words = f'{FILE}:4: checkpoint "x": "when" reads {path}, which the model writes'
    assert [sentence.partition("; ")[0] for sentence in found] == ([words] if path else [])


def test_bounds_of_programs_and_of_limits_are_named_without_any_agent() -> None:
    """Programs can send facts about everything; a table of facts for a tool of ours is never used."""
    text = """
[[checkpoint]]
checkpoint_id = "x"
action_pattern = "transfer"
when = "args.amount > 3.0"

[[limit]]
name = "daily"
action_pattern = "transfer"
of = "args.amount"
per = "all"
within = "1d"
max = 5

[[facts]]
tool = "refund"
url = "https://shop.example/"
"""
    policy = checkpoints.load(text, filename=FILE)
    alone = lint_policy(policy, Registry([]), FILE)
    assert [sentence.partition(", which the model")[0] for sentence in alone] == [
        f'{FILE}:5: checkpoint "x": "when" reads args.amount',
        f'{FILE}:10: limit "daily": "of" reads args.amount',
    ]
    assert lint_policy(policy, REGISTRY, FILE)[-1].startswith(
        f"{FILE}:15: [[facts]]: refund is a tool of the agents"
    )


@pytest.mark.parametrize(
    ("pattern", "money", "problem"),
    [
        ("refund", "args.amount", None),
        ("refund", "facts.price", None),
        ("refund", "args.amonut", 'refund has no such argument (did you mean "amount"?)'),
        ("pay", "facts.price", "pay looks up no facts"),
        (".*", "facts.price", None),  # one of them looks it up
        (".*", "args.price", "none of its tools has it"),
        ("other", "args.price", None),  # that no tool matches is said already
    ],
)
def test_money_that_can_never_be_there_is_named(pattern: str, money: str, problem: str | None) -> None:
    """A path that no tool of the checkpoint can have, with its line; an inherited one once, in the defaults."""
    defaults = f'[defaults]\nmoney = ["{money}"]\n'
    table = f'[[checkpoint]]\ncheckpoint_id = "x"\naction_pattern = "{pattern}"\n'
    own = lint_policy(checkpoints.load(f'{table}money = ["{money}"]', filename=FILE), REGISTRY, FILE)
    expected = [f'{FILE}:4: checkpoint "x": "money" names {money}, but {problem}'] if problem else []
    assert [each for each in own if '"money"' in each] == expected
    inherited = lint_policy(checkpoints.load(defaults + table, filename=FILE), REGISTRY, FILE)
    nowhere = money in ("args.amonut", "args.price")
    words = f'{FILE}:2: [defaults]: "money" names {money}, which none of the loaded tools has'
    words += "; only other programs can have it"
    assert [each for each in inherited if '"money"' in each] == ([words] if nowhere else [])


@pytest.mark.parametrize(
    "when",
    [
        "!args.command.startsWith('git status')",
        'args["command"].startsWith("rm")',
        "!(args.cmd.endsWith(' --dry-run'))",
        "!args.command.contains('status')",
        r"!(args.command == r'\' || args.command.startsWith('git'))",
        "!args.command.matches('^git status')",
        "!args.command.matches('git status$')",
        "!args.command.matches('git status')",
        "!args.command.matches('^(git (status|diff|log)|ls|cat|make test)( |$)')",
        "!args.command.matches('^git status$|^ls')",
        "!args.command.matches('^git status$|ls$')",
        "!args.command.matches('^git status.*$')",
        "!args.command.matches('^git diff [^;]+$')",
        "!args.command.matches(r'^git \\S*$')",
        "!args.command.matches('^git [\\\\s\\\\S]*$')",
        "!args.command.matches('^git (.)*$')",
        "!args.command.matches('^git .{0,80}$')",
        "!args.command.matches('^git [a[^b]]+$')",
        "!args.command.matches('^git( status$)?')",
        "!args.command.matches('(^git)? status$')",
        "!args.command.matches('(?m)^git status$')",
        "!args.command.matches('^(?m:git status$)')",
        "!args.command.matches('^git ' + 'status$')",
        "!args.command.matches('^git status\\\\$')",
        "!args.command.matches('^git status[$]')",
        "!string(args.command).startsWith('git')",
        "!(has(args.command) && args.command.matches('^ls'))",
        "![args.command].all(each, each.startsWith('ls'))",
        "args.signoff_command[0] != 'kubectl'",
        "!('kubectl' in args.signoff_command)",
        "!args.command.matches('^ls$') || args.command.matches('[;&|]')",
    ],
)
def test_a_part_of_a_command_is_no_reason_to_run(when: str) -> None:
    """What follows a beginning, or a pattern without an end, can be an option that writes, or another command."""
    [sentence] = [
        each for each in findings(action_pattern="Bash$", when=when) if "a part of a command" in each
    ]
    assert sentence.startswith(f'{FILE}:4: checkpoint "x": "when" looks at')
    assert "compare whole commands" in sentence
    policy = checkpoints.load(
        f"[[checkpoint]]\ncheckpoint_id = 'x'\naction_pattern = 'Bash'\nwhen = '''{when}'''\n"
        "[[checkpoint]]\ncheckpoint_id = 'rest'\naction_pattern = 'Bash|Power.*|Monitor'\n",
        filename=FILE,
    )
    assert [each for each in lint_policy(policy, Registry(), FILE) if "a part of a command" in each] == []


@pytest.mark.parametrize(
    "when",
    [
        "!(args.command in ['git status', 'git diff', 'ls'])",
        "args.command != 'git status'",
        "!args.command.matches('^git (status|diff)$')",
        "!args.command.matches('^(git (status|diff( --stat)?)|ls( -l)?)$')",
        "!args.command.matches('(?i)^git log -[0-9]{1,3}$')",
        "!args.command.matches(r'\\A(?:ls|git status)\\z')",
        "!args.command.matches('^ls$|^git status$')",
        "!args.command.matches('^(?P<tool>git|hg) status[.]?$')",
        "args.signoff_command != ['kubectl', 'get', 'pods']",
        "!(args.command == 'ls' && args.signoff_folder.startsWith('/srv/ada/'))",
        "args.path.startsWith('/srv')",
        "args.note == 'args.command.startsWith(1)'",
        "args.command == 'ls' // args.command.startsWith('x')",
        "!(args.command == 'ls' && args.paths.all(each, size(each) < 9))",
    ],
)
def test_whole_commands_are_not_mentioned(when: str) -> None:
    """Equality, lists, patterns from end to end, and parts of anything else."""
    assert [
        each for each in findings(action_pattern="Bash$", when=when) if "a part of a command" in each
    ] == []


@pytest.mark.parametrize(
    ("terms", "missing"),
    [
        ('approvers = ["S0TWO"]', "have at least 3, or set prevent_self_review or adviser_may_approve"),
        ('approvers = ["S0TWO"]\nprevent_self_review = false', None),
        (
            'approvers = ["S0TWO"]\napprovals_required = 2\nprevent_self_review = false',
            "2 must approve; whoever gave a reason or a note cannot approve what follows, so have at least 3",
        ),
        (
            'approvers = ["S0TWO"]\napprovals_required = 2\nadviser_may_approve = true',
            "whoever asks cannot approve what follows, so have at least 3, or set prevent_self_review",
        ),
        ('approvers = ["S0TWO", "S0MORE"]', None),
        ('approvers = ["S0TWO", "U0C"]', None),
        ('approvers = ["S0TWO", "U0B"]', "S0TWO: 2 reviewers"),
        ('approvers = ["S0TWO", "channel"]', None),
        ('approvers = ["U0A", "U0B"]', None),
        ('approvers = ["S0TWO", "S0UNKNOWN"]', None),
        ('approvers = ["S0EMPTY"]\nadviser_may_approve = true\nprevent_self_review = false', None),
    ],
)
def test_a_group_needs_one_who_asks_and_one_who_gives_a_reason(terms: str, missing: str | None) -> None:
    """Everybody whom the approvers name counts once; unknown members and a channel are not guessed at."""
    file = (
        f"[defaults]\nrisk = 'high'\n{terms}\n[[checkpoint]]\ncheckpoint_id = 'x'\naction_pattern = 'pay'\n"
    )
    policy = checkpoints.load(file, filename=FILE)
    members = {"S0TWO": ["U0A", "U0B"], "S0MORE": ["U0B", "U0C"], "S0EMPTY": list[str]()}
    found = few_reviewers(policy, members)
    assert len(found) == (missing is not None)  # the checkpoint has the approvers of the defaults
    if missing is not None:
        [(line, sentence)] = found
        assert (line, sentence.startswith("[defaults]: S0TWO"), missing in sentence) == (3, True, True)
    assert user_groups(policy) == sorted(each for each in policy.defaults.approvers if each.startswith("S"))
