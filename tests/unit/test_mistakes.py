"""Typical mistakes of authors and operators: each is one line that names the place and says what to write instead.

Mistakes over HTTP are in `tests/integration/web/test_mistakes.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import AfterValidator

from agent.domain import checkpoints
from agent.domain.errors import PolicyError
from agent.runtime import stored_text
from agent.runtime.agents import Agent, LoadError, Registry, load_agents
from agent.runtime.checks.policy_lint import lint_policy
from agent.runtime.checks.tool_lint import lint_tools
from agent.runtime.step_tools import StepTool
from agent.runtime.steps import ask, step
from signoff import ApprovalClient, AsyncApprovalClient, MalformedArguments, Tool, tool
from signoff.canonical import parse_json
from slackbot import settings
from slackbot.cli import main
from slackbot.settings import SettingsError

TOOL = '''
from signoff import Agent, function_agent, tool

@tool
def refund(order_id: int, amount: float) -> str:
    """Pay an order back."""
    return f"{order_id} {amount}"
'''
"""The tool ends in line 7, so what is put behind it begins in line 8."""

MODULES = {
    "option of a tool": (
        '@tool(requires_aproval=True)\ndef pay(order: int) -> str:\n    """Pay."""',
        8,
        'unknown option "requires_aproval" (did you mean "requires_approval"?)',
    ),
    "option of an agent": (
        'agent = Agent("a", instruction="Refund.", tools=[refund])',
        8,
        'unknown option "instruction" (did you mean "instructions"?)',
    ),
    "tool without types": (
        '@tool\ndef pay(order) -> str:\n    """Pay."""',
        8,
        'parameter "order" has no type annotation',
    ),
    "type without a schema": (
        "import socket\n@tool\ndef pay(order: socket.socket) -> str: ...",
        9,
        'parameter "order" has the type socket, which has no JSON schema',
    ),
    "default that does not fit": (
        '@tool\ndef pay(order: int = "7") -> str: ...',
        8,
        "which does not fit its type",
    ),
    "star arguments": (
        "@tool\ndef pay(*orders: int) -> str: ...",
        8,
        "parameter *orders: int must be a plain named parameter",
    ),
    "two tools of one name": (
        'agent = Agent("a", "Refund.", [refund, refund])',
        8,
        'two tools are named "refund"; give one of them another with @tool(name="…")',
    ),
    "function without @tool": (
        'def pay(order: int) -> str: ...\nagent = Agent("a", "Pay.", [pay])',
        9,
        "pay is not a tool; put @tool above its definition",
    ),
    "tool that is not in a list": (
        'agent = Agent("a", "Refund.", refund)',
        8,
        "tools must be a list, such as [refund]",
    ),
    "agent as a tool": (
        'a = Agent("a", "Refund.", [refund])\nb = Agent("b", "Refund.", [a])',
        9,
        "a is an agent; pass it as a.as_tool()",
    ),
    "name with a space": ('agent = Agent("my agent", "Refund.")', 8, "and no space"),
    "unknown risk": (
        '@tool(risk="hihg")\ndef pay() -> str: ...',
        8,
        "is none of low, medium, high, critical",
    ),
    "timeout in words": (
        '@tool(timeout="3 days")\ndef pay() -> str: ...',
        8,
        '@tool: timeout must be a time such as "72h"',
    ),
    "retries of what may not be repeated": (
        "@tool(retries=3)\ndef pay() -> str: ...",
        8,
        "add idempotent=True",
    ),
    "hook with an unknown argument": (
        "def look(order_ids): ...\n@tool(facts=look)\ndef pay(order_id: int) -> str: ...",
        9,
        'there is no argument "order_ids" to pass it (known: order_id)',
    ),
    "function agent that is not async": (
        "@function_agent\ndef clean(task: str) -> str: ...",
        8,
        "write `async def clean(task: str)`",
    ),
    "two agents of one name": (
        'a = Agent("a", "Refund.")\nb = Agent("a", "Pay.")',
        9,
        'two agents of my_agents are named "a"; rename this one',
    ),
    "agent and function agent of one name": (
        'a = Agent("a", "Refund.")\n\n@function_agent(name="a")\nasync def b(task: str) -> str: ...',
        11,
        'two agents of my_agents are named "a"; rename this one',
    ),
    "method": (
        "class Shop:\n    @tool\n    def pay(self, order: int) -> str: ...",
        9,
        "@tool pay: it is a method, and nothing would pass self; write tool(owner.pay)",
    ),
    "class method": (
        "class Shop:\n    @classmethod\n    @tool\n    def pay(cls, order: int) -> str: ...",
        10,
        "@tool pay: it is a method, and nothing would pass cls",
    ),
    "no agent": ("agents = [Agent]", None, "has no Agent at its top level"),
    "syntax": ("def pay(:", 8, "SyntaxError: invalid syntax"),
    "missing library": ("import strpie", 8, "No module named 'strpie'"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of an author, in which Python looks for modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("my_agents", None)
    yield tmp_path
    sys.modules.pop("my_agents", None)


@pytest.mark.parametrize("mistake", MODULES)
def test_a_mistake_in_agents_names_its_line_and_the_fix(mistake: str, folder: Path) -> None:
    """What cannot work is refused when the module is loaded, at the author's own line."""
    source, line, words = MODULES[mistake]
    (folder / "my_agents.py").write_text(TOOL.lstrip() + "\n" + source + "\n")
    with pytest.raises(LoadError) as failed:
        load_agents(["my_agents"])
    said = str(failed.value)
    assert "\n" not in said
    assert words in said
    assert (f"(my_agents.py:{line})" if line else "my_agents") in said


def test_a_file_that_an_own_package_hides_is_named(folder: Path) -> None:
    """`agent.py` cannot be imported, since Signoff has a package of that name: the line says so."""
    (folder / "agent.py").write_text(TOOL)
    with pytest.raises(
        LoadError, match=r"which hides your agent\.py; rename your file, for example to my_agent\.py"
    ):
        load_agents(["agent"])


def test_a_module_that_is_not_there_is_named() -> None:
    """A file instead of a module, and a module that nobody has."""
    with pytest.raises(
        LoadError, match=r"no such module in this directory or on Python's path \(write it without \.py\)"
    ):
        load_agents(["my_agents.py"])
    with pytest.raises(LoadError, match=r"write my_agents for the file my_agents\.py"):
        load_agents(["./my-agents"])


RULE = '[[checkpoint]]\ncheckpoint_id = "refunds"\naction_pattern = "refund"\n'
FILES = {
    "key": (RULE + 'aprovers = ["channel"]', 4, 'unknown key "aprovers" (did you mean "approvers"?)'),
    "table": ("[[checkpoints]]\n", 1, 'unknown table "checkpoints" (did you mean "checkpoint"?)'),
    "one bracket": ("[checkpoint]\n", 1, "write [[checkpoint]], with two brackets"),
    "time in words": (RULE + 'timeout = "3 days"', 4, '"timeout" must be a time such as "72h"'),
    "condition": (RULE + "when = 'args.amount >'", 4, '"when" is not a condition: column 14'),
    "variable of a condition": (
        RULE + "when = 'arg.amount > 5.0'",
        4,
        'unknown variable "arg" (did you mean "args"?); there are: agent, args, facts, requester',
    ),
    "pattern": (
        '[[checkpoint]]\ncheckpoint_id = "a"\naction_pattern = "("',
        3,
        "is not a regular expression",
    ),
    "reviewer": (RULE + 'approvers = ["@grace"]', 4, "is not a Slack user id (U…, W…), a user group id (S…)"),
    "risk": (RULE + 'risk = "hihg"', 4, '"risk" must be one of low, medium, high, critical'),
    "placeholder": (
        RULE + 'description_template = "Refund {amount}"',
        4,
        '"description_template" is not a template',
    ),
    "root of money": (
        RULE + 'money = [\n  "fact.price",\n]',
        4,
        '"money" \'fact.price\' must start with "args." or "facts."',
    ),
    "name as money": (RULE + 'money = ["price"]', 4, '"money" \'price\' must start with "args." or "facts."'),
    "root alone": (RULE + 'money = ["facts"]', 4, "'facts' is not a path such as facts.price"),
    "path with brackets": (RULE + 'money = ["args.items[0].price"]', 4, "is not a path such as"),
    "empty step": (RULE + 'money = ["args..price"]', 4, "is not a path such as facts.price"),
    "money that is no list": ('[defaults]\nmoney = "facts.price"', 2, '[defaults]: "money" must be a list'),
    "money that is no text": (RULE + "money = [5]", 4, "5 is not a path such as facts.price"),
    "same id": (RULE + RULE, 5, 'checkpoint "refunds": the id is already used in line 2'),
    "quorum": (
        RULE + 'approvers = ["U0ADA"]\napprovals_required = 2',
        5,
        "2 approvals are required, but only 1 can be given",
    ),
    "syntax": ("[[checkpoint]\n", 1, "checkpoints.toml:1:"),
    "boolean in quotes": (
        RULE + 'allow_edit = "true"',
        4,
        '"allow_edit" must be true or false, without quotes; write true',
    ),
    "yes in quotes": (RULE + 'allow_edit = "yes"', 4, "without quotes; write true"),
    "on in quotes": (RULE + 'allow_edit = "on"', 4, "without quotes; write true"),
    "yes": (RULE + "allow_edit = yes", 4, "write allow_edit = true"),
    "off": (RULE + "allow_edit = off  # not yet", 4, "write allow_edit = false"),
    "True": (RULE + "allow_edit = True", 4, "write allow_edit = true"),
    "None": (RULE + "channel = None", 4, "TOML has no None; leave channel out"),
    "smart quotes": (RULE + "channel = “C01”", 4, 'quotes must be straight; write channel = "C01"'),
    "time without quotes": (RULE + "timeout = 24h", 4, 'has quotes; write timeout = "24h"'),
    "hours in words": (RULE + 'timeout = "24 hours"', 4, '(did you mean "24h"?)'),
    "hours in capitals": (RULE + 'timeout = "24H"', 4, '(did you mean "24h"?)'),
    "text without quotes": (RULE + "risk = high", 4, 'has quotes; write risk = "high"'),
    "capital": (RULE + 'risk = "High"', 4, 'high, critical (did you mean "high"?)'),
    "entry without quotes": (
        RULE + "approvers = [U0ADA, 'channel']",
        4,
        "approvers = [\"U0ADA\", 'channel']",
    ),
    "entry on its own line": (RULE + "approvers = [\n  U0ADA,\n]", 5, 'write "U0ADA"'),
    "channel as a comment": (RULE + "channel = #ops", 4, 'write channel = "#ops"'),
    "colon": (RULE + 'timeout: "24h"', 4, 'write timeout = "24h"'),
    "semicolon": (RULE + 'channel = "#a";', 4, 'not even ";"; write channel = "#a"'),
    "twice": (RULE + 'risk = "low"\nrisk = "high"', 5, "risk is written twice in this table; keep one"),
    "open list": (RULE + 'approvers = ["U0ADA"', 4, 'write "]" behind its last entry'),
    "open quote": (RULE + 'channel = "C01', 4, "the text of channel is not closed"),
    "one bracket less": ("[[checkpoint]\n", 1, "write [[checkpoint]]"),
    "half a header": ("[defaults\n", 1, "write [defaults]"),
    "BOM": ("\ufeff" + RULE, 1, "begins with a byte order mark (BOM); save it as UTF-8 without one"),
    "list in quotes": (RULE + 'approvers = "channel"', 4, 'must be a list; write ["channel"]'),
    "backslash in double quotes": (
        '[[checkpoint]]\ncheckpoint_id = "a"\naction_pattern = "a\\.b"',
        3,
        r"write action_pattern = 'a\.b'",
    ),
    "glob": ('[[checkpoint]]\ncheckpoint_id = "a"\naction_pattern = "*pay"', 3, '(did you mean ".*pay"?)'),
    "glob in a limit": (
        '[[limit]]\nname = "a"\naction_pattern = "*.pay"\nof = "count"\nper = "all"\nwithin = "1h"\nmax = 1',
        3,
        '(did you mean ".*[.]pay"?)',
    ),
    "glob in a grant": (RULE + 'grant_free = { order_id = "*7" }', 4, '(did you mean ".*7"?)'),
    "glob in a condition": (RULE + "when = \"args.a.matches('*x')\"", 4, '(did you mean ".*x"?)'),
    "group by name": (
        RULE + 'approvers = ["@finance"]',
        4,
        'a group\'s id is in Slack under "People" > "User groups" > the group > "⋮" > "Copy group ID"',
    ),
    "mention": (RULE + 'approvers = ["<@U0ADA>"]', 4, 'write "U0ADA"'),
    "mention of a group": (RULE + 'notify = ["<!subteam^S0FIN|@finance>"]', 4, 'write "S0FIN"'),
    "channel among reviewers": (RULE + 'approvers = ["#ops"]', 4, 'a channel is set with "channel"'),
}
CONDITIONS = {
    "facts.price = 1000": "write facts.price == 1000",
    "args.a === 1": "write args.a == 1",
    "args.a <> 1": "write args.a != 1",
    "args.a > 1 and args.b": '"and" is written "&&" in CEL; write args.a > 1 && args.b',
    "args.a == 'x and y' AND args.b = 'a or b'": "write args.a == 'x and y' && args.b == 'a or b'",
    "args.a or args.b": "write args.a || args.b",
    "args.a | args.b": "write args.a || args.b",
    "not args.a": "write !args.a",
    "not args.a == 1 && args.b": "write !(args.a == 1) && args.b",
    "not (args.a == 1)": "write !(args.a == 1)",
    "'x' not in args.a": "write !('x' in args.a)",
    "args.a is not None": "write args.a != null",
    "args.a == True": "write args.a == true",
    "args.a == ‘x’": "write args.a == 'x'",
    "args.a in ('x', 'y')": "write args.a in ['x', 'y']",
    "args.a contains 'x'": "write args.a.contains('x')",
    "len(args.a) > 1": "write size(args.a) > 1",
    "args.a > $1,000": "write args.a > 1000",
    "args.a > 1;": "write args.a > 1",
    r"args.a.matches('a\.b')": r"a text with backslashes is written r'…'; write args.a.matches(r'a\.b')",
    r"args.a == '\d'": r"write args.a == r'\d'",
    r"args.a.matches('\brm\b')": r"\b is a backspace unless the text is written r'…'",
    "args.a.matches(args.pat)": "matches(args.pat) needs a pattern that is written out",
    "matches(args.a, args.pat)": "matches(args.pat) needs a pattern that is written out",
    "args.a.matches('x' + args.pat)": "needs a pattern that is written out",
    "args.a.matches(args.b ? 'x' : 'y')": "needs a pattern that is written out",
    "['x'].exists(p, args.a.matches(p))": "matches(p) needs a pattern that is written out",
    "args.a.matches('(')": "has no regular expression: unclosed group",
    "args.a == 'x": "column 11: the quote before x is not closed",
    "args.a like 'x%'": 'column 8: "like" does not fit here',
    "args.a >": "column 9: the condition ends too early",
    "args.a is\nnot 5": '"is not" is written "!=" in CEL',
    "args.a.matches(\n'(')": "has no regular expression: unclosed group",
}
FILES |= {
    condition: (f"{RULE}when = '''\n{condition}'''", 4, words) for condition, words in CONDITIONS.items()
}
PLUMBING = ("Value error,", "$:", "token recognition", "input '", "ExprContext")


@pytest.mark.parametrize("mistake", FILES)
def test_a_mistake_in_the_policy_names_its_line_and_the_fix(mistake: str) -> None:
    """A checkpoints file that cannot be enforced is refused with file and line, what is wrong, and what to write."""
    text, line, words = FILES[mistake]
    with pytest.raises(PolicyError) as failed:
        checkpoints.load(text, filename="checkpoints.toml")
    said = failed.value.problems[0]
    assert said.startswith(f"checkpoints.toml:{line}: ")
    assert words in said
    assert "\n" not in said
    assert not any(plumbing in said for plumbing in PLUMBING)


RIGHT = [
    "args.or == 1 && args.a['not'] == 'a = b; c and d'",
    "args.a.matches(r'^\\d+$') && args.b.matches('^git ' + 'status$') && matches(args.a, ('x'))",
    "args.day > '2026-11-26' || args.version >= '1.2.3' || args.date >= '2024'",
    "args.a.matches('a,b[)]') // matches(args.b)",
]


@pytest.mark.parametrize("condition", RIGHT)
def test_a_condition_that_only_looks_like_a_mistake_is_taken(condition: str) -> None:
    """Words in texts, fields and comments, patterns put together from texts, and texts that are compared as texts."""
    assert checkpoints.load(f"{RULE}when = '''{condition}'''", filename="checkpoints.toml").rules


def test_what_loads_and_was_not_meant_is_said_with_its_line(folder: Path) -> None:
    """Misspelt tools and arguments, a tool that the model knows nothing about, and a sleep that blocks others."""
    (folder / "my_agents.py").write_text(
        TOOL
        + "import time\n\n@tool\nasync def slow(order: int) -> str:\n    time.sleep(9)\n    return 'done'\n"
        "\ndef price_of(order: int) -> float:\n    return 12.5\n"
        '\n@tool(facts=price_of)\ndef pay(order: int) -> str:\n    """Pay."""\n    return "paid"\n'
        'agent = Agent("a", "Refund.", [refund, slow, pay])\n'
    )
    registry = load_agents(["my_agents"])
    rules = (
        RULE + 'when = "args.amuont > 5.0"\n[[checkpoint]]\ncheckpoint_id = "b"\naction_pattern = "refnud"\n'
    )
    policy = checkpoints.load(rules, filename="checkpoints.toml")
    wrong_argument, wrong_tool = lint_policy(policy, registry, "checkpoints.toml")
    assert wrong_argument.startswith('checkpoints.toml:4: checkpoint "refunds": "when" looks at args.amuont')
    assert '(did you mean "amount"?)' in wrong_argument
    assert wrong_tool.startswith(
        'checkpoints.toml:7: checkpoint "b": "action_pattern" matches none of the loaded tools'
    )
    assert '(did you mean "refund"?)' in wrong_tool
    assert lint_tools(registry) == [
        "my_agents.py:10: slow has no docstring, so the model does not know what it does; write one below its `def`",
        "my_agents.py:10: slow calls time.sleep, which holds up all other async tools; write `await asyncio.sleep(…)`",
        (
            "my_agents.py:18: pay looks up its facts with price_of, which returns float; "
            'return a dict, such as {"price": 12.5}'
        ),
    ]


SETTINGS = {
    "database": (
        {"DATABASE_URL": "mysql://u@h/d"},
        "DATABASE_URL: the database address has to begin with postgresql://",
    ),
    "bot token": ({"SLACK_BOT_TOKEN": "xapp-1"}, "SLACK_BOT_TOKEN: must begin with xoxb-"),
    "role": (
        {"SIGNOFF_ROLES": "wrker"},
        "SIGNOFF_ROLES: there is no role wrker; the roles are web, worker, scheduler",
    ),
    "port": ({"SIGNOFF_PORT": "80a"}, "SIGNOFF_PORT: "),
    "public address": ({"SIGNOFF_PUBLIC_URL": "http://signoff.example.com"}, "must begin with https://"),
    "schema": (
        {"SIGNOFF_DB_SCHEMA": "My-Schema"},
        "SIGNOFF_DB_SCHEMA: must have at most 63 lower-case letters",
    ),
    "file of a secret": ({"SLACK_BOT_TOKEN_FILE": "/nowhere"}, "SLACK_BOT_TOKEN_FILE: cannot read /nowhere"),
}


@pytest.mark.parametrize("mistake", SETTINGS)
def test_a_wrong_setting_is_named(mistake: str, tmp_path: Path) -> None:
    """The setting's name, and what it has to be."""
    environment, words = SETTINGS[mistake]
    with pytest.raises(SettingsError) as failed:
        settings.read(environment, tmp_path)
    [said] = failed.value.problems
    assert words in said


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SIGNOFF_CHANEL", "SIGNOFF_CHANNEL"),
        ("SLACK_TOKEN", "SLACK_BOT_TOKEN"),
        ("DATABASE_URI", "DATABASE_URL"),
        ("OPENAI_KEY", "OPENAI_API_KEY"),
    ],
)
def test_a_misspelt_setting_is_named(name: str, meant: str, tmp_path: Path) -> None:
    """A name that nobody reads is said with the one that was probably meant."""
    assert settings.read({name: "x"}, tmp_path).unknown == (f"{name} (did you mean {meant}?)",)


def test_settings_of_other_programs_are_not_questioned(tmp_path: Path) -> None:
    """What looks like a setting of Signoff is none where the setting itself is there."""
    environment = {"DATABASE_URI": "x", "DATABASE_URL": "postgresql://u@h/d", "SLACK_WEBHOOK_URL": "x"}
    assert settings.read(environment, tmp_path).unknown == ()


COMMANDS = {
    "command": ("requsts list", "No such command 'requsts'. Did you mean 'requests'?"),
    "sub-command": ("requests shwo 1", "No such command 'shwo'. Did you mean 'show'?"),
    "option": ("requests --agnt a", "No such option: --agnt (Possible options: --agent)"),
    "filter": ("requests --status aproved", "'aproved' is none of waiting, approved"),
    "time": ("requests --since yesterday", "must be a date, a time (RFC 3339), or how long ago, such as 7d"),
    "time-out": ("gate --action a --timeout soon -- true", 'must be a time such as "72h"'),
    "argument": ("gate --action a --arg env -- true", "write name=text, or name:=JSON"),
    "address": ("gate --action a -- true", "SIGNOFF_URL is not set"),
    "deciding": ("requests approve 1", "nobody decides on the command line"),
    "scope": ("keys create crm --scope reqest", "'reqest' is not one of 'request'"),
    "no database": ("keys create crm --scope request", "set DATABASE_URL, or use --embedded"),
    "no policy": (
        "check",
        "SIGNOFF_CHECKPOINTS: there is no file checkpoints.toml (`signoff init` writes one)",
    ),
}


@pytest.mark.parametrize("mistake", COMMANDS)
def test_a_wrong_command_says_what_to_type(
    mistake: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and one sentence with the word that was wrong and the one to use."""
    line, words = COMMANDS[mistake]
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["signoff", *line.split()])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


class Cursor:
    """Something that is no JSON."""


def test_a_result_that_is_no_json_names_its_type() -> None:
    """The card and the model read what to return instead; a step, which needs its result again, fails."""
    said = stored_text.result_text(Cursor())
    assert said.endswith(
        "[the tool returned Cursor, which is not JSON: return a dict, list, str, number, bool or None]"
    )

    def rows() -> Any:
        return Cursor()

    with pytest.raises(ValueError, match="it returned Cursor, which is not JSON: return a dict, list, str"):
        StepTool.of(rows).stored_result(Cursor())


def test_ask_and_step_outside_of_a_function_agent_say_where_they_work() -> None:
    """Neither waits for somebody who was never asked."""
    for called in (ask("May I?"), step(print)):
        with pytest.raises(RuntimeError, match="work inside a @function_agent only"):
            asyncio.run(called)
    with pytest.raises(TypeError, match="step takes keyword arguments only"):
        asyncio.run(step(print, "text"))


CLIENTS = {
    "address": (lambda: ApprovalClient("signoff.example.com", "k"), "must begin with https:// or http://"),
    "key": (lambda: ApprovalClient("https://signoff.example.com", ""), "`signoff keys create` makes one"),
    "parentheses": (
        lambda: _client().requires_approval(_plain),  # type: ignore[arg-type]
        "write @client.requires_approval() above _plain, with parentheses",
    ),
    "async function": (
        lambda: _client().requires_approval()(_async),
        "_async is async: use AsyncApprovalClient",
    ),
    "plain function": (
        lambda: AsyncApprovalClient("http://127.0.0.1", "k").requires_approval()(_plain),  # type: ignore[arg-type]
        "_plain is not async: use ApprovalClient",
    ),
    "timeout": (lambda: _client().requires_approval(timeout="3 days"), 'must be a time such as "72h"'),
}


@pytest.mark.parametrize("mistake", CLIENTS)
def test_a_mistake_with_the_client_is_said_before_anybody_is_asked(mistake: str) -> None:
    """Wrong addresses, keys and decorators are refused where they are written."""
    called, words = CLIENTS[mistake]
    with pytest.raises((TypeError, ValueError), match=r".") as failed:
        called()
    assert words in str(failed.value)


def _client() -> ApprovalClient:
    return ApprovalClient("http://127.0.0.1", "key")


def _plain() -> None: ...


async def _async() -> None: ...


def _positive(amount: int) -> int:
    if amount <= 0:
        raise ValueError("must be more than nothing")
    assert amount < 9, "is too much"
    return amount


@tool
def pay(amount: Annotated[int, AfterValidator(_positive)]) -> str:
    """Pay."""
    return str(amount)


@pytest.mark.parametrize(
    ("amount", "said"), [(0, "$.amount: must be more than nothing"), (9, "$.amount: is too much")]
)
def test_a_type_says_in_its_authors_words_what_is_wrong(amount: int, said: str) -> None:
    """The model and people read the sentence of the author, without the beginning that pydantic adds."""
    with pytest.raises(MalformedArguments) as refused:
        pay.signature.complete({"amount": amount})
    assert str(refused.value).startswith(said)  # pytest adds to an assertion


def test_what_is_wrong_with_a_whole_value_needs_no_path() -> None:
    """A problem of everything begins with its own words, not with "$:"."""
    with pytest.raises(MalformedArguments) as refused:
        parse_json("{'a': 1}")
    assert str(refused.value).startswith("it is not JSON: ")
    assert refused.value.path == "$"


class Price(TypedDict):
    price: float


FACTS: dict[str, tuple[Any, str | None]] = {
    "dict": (dict[str, float], None),
    "mapping": (Mapping[str, Any], None),
    "typed dict": (Price, None),
    "or nothing": (dict[str, Any] | None, None),
    "anything": (Any, None),
    "awaitable": (Awaitable[dict[str, Any]], None),
    "number": (float, "returns float; return a dict"),
    "list": (list[str], "returns list; return a dict"),
    "nothing": (None, "returns NoneType; return a dict"),
    "number or text": (int | str, "returns int | str; return a dict"),
}


@pytest.mark.parametrize("name", FACTS)
def test_facts_that_are_no_mapping_are_reported(name: str) -> None:
    """A look-up whose annotation says that it returns no mapping gets a line; one that may return one gets none."""
    annotation, words = FACTS[name]

    def look_up(amount: int) -> Any: ...

    look_up.__annotations__["return"] = annotation
    paying = Agent("a", "Pay.", [Tool(pay.function, facts=look_up)])
    said = lint_tools(Registry([paying]))
    assert len(said) == (words is not None)
    assert all(line.startswith("test_mistakes.py:") and str(words) in line for line in said)
