"""How SQL is written: whole literal texts, or constructs composed of the tables. Never assembled from strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from sqlalchemy import TextClause, bindparam, select

import agent
import slackbot
from agent import store
from agent.database.driver import sql_of
from agent.domain.request import RequestStatus
from agent.store.tables import approval_request

LITERAL = {"text", "literal_column", "TextClause"}
SENDING = {
    "execute",
    "executemany",
    "stream",
    "scalar",
    "scalars",
    "exec_driver_sql",
    "query",
    "add",
    "add_rows",
}
ABOUT_SQL = re.compile(rf"S608|\b(?:fetch|tx|{'|'.join((LITERAL | SENDING) - {'add'})})\b")
"""What stands in every module that could put a statement together."""


def test_no_statement_is_assembled() -> None:
    """What is handed to `text()` is one literal; what is sent is such a text or a construct; no check is silenced."""
    modules = (path for package in (agent, slackbot) for path in Path(package.__path__[0]).rglob("*.py"))
    sources = {str(path): path.read_text(encoding="utf-8") for path in modules}
    found = {path: list(assembled(source)) for path, source in sources.items() if ABOUT_SQL.search(source)}
    assert {path: places for path, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "planted",
    [
        'ONE = text(f"SELECT {COLUMNS} FROM pause")',
        'ONE = text("SELECT 1 FROM pause" + CONDITION)',
        'ONE = text(BASE.format(more=""))',
        'ONE = "SELECT 1 FROM " + TABLE\nTWO = text(ONE)',
        'async def read(c): await c.execute(BASE.replace("{x}", "y"))',
        'async def read(c, x): await query(c, ONE, f"SELECT {x}")',
        'async def read(c, x): await fetch(c, f"SELECT {x}")',
        'async def read(c, x):\n    sql = "SELECT 1"\n    sql += x\n    await c.exec_driver_sql(sql)',
        'def write(tx): tx.add("DELETE FROM %s" % TABLE)',
        'def write(tx): tx.add(text("DELETE FROM pause", *more) if x else " ".join(parts))',
        'ONE = literal_column(f"{x}")',
        "ONE = 1  # noqa: " + "S608",
    ],
)
def test_an_assembled_statement_is_found(planted: str) -> None:
    """Each way to put a statement together is noticed."""
    assert list(assembled(f"from sqlalchemy import literal_column, text\n{planted}\n"))


def test_what_is_written_whole_or_composed_passes() -> None:
    """Literals, names of constants and constructs are what may be sent."""
    written = """
from sqlalchemy import select, text
ONE = text("SELECT 1 FROM pause "
           "WHERE scope = :scope")
TWO = select(pause.c.scope).where(pause.c.scope == bindparam("scope"))
async def read(c, tx):
    await c.execute(ONE, {"scope": f"{c}"})
    await query(c, ONE if c else TWO, _page(c), statements.THREE, scope="a" + "b")
    tx.add(ONE, scope="a" + "b")
    names.add("a" + "b")
"""
    assert list(assembled(written)) == []


def test_values_of_a_statement_are_written_into_it() -> None:
    """A constant becomes a literal, so that a partial index can match; a parameter stays one, whatever its type."""
    waiting = select(approval_request.c.id).where(
        approval_request.c.status == RequestStatus.WAITING,
        approval_request.c.agent == "50% o'clock",
        approval_request.c.id > bindparam("after"),
    )
    written = " ".join(sql_of(waiting.limit(1)).split())
    assert written == (
        "SELECT approval_request.id FROM approval_request WHERE approval_request.status = 'waiting' "
        "AND approval_request.agent = '50%% o''clock' AND approval_request.id > %(after)s::UUID LIMIT 1"
    )


def assembled(source: str) -> Iterator[str]:
    """The places in a module where a statement is put together."""
    yield from re.findall(r"noqa:.*S608", source)
    tree = ast.parse(source)
    given = assignments(tree)
    taken_literally = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "sqlalchemy"
        for alias in node.names
        if alias.name in LITERAL
    }
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id in taken_literally and not is_literal(call):
            yield f"{call.lineno}: {ast.unparse(call)[:80]}"
        for statement in sent(call):
            if is_assembled(statement, given, set()):
                yield f"{call.lineno}: {ast.unparse(call)[:80]}"


def is_literal(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)


def sent(call: ast.Call) -> list[ast.expr]:
    """The statements among the arguments of a call that sends or collects them."""
    match call.func:
        case ast.Name(id="fetch" | "query"):
            return call.args[1:]
        case ast.Attribute(value=ast.Name(id=receiver), attr="add" | "add_rows"):
            return call.args[:1] if receiver == "tx" else []
        case ast.Attribute(attr=attr) if attr in SENDING:
            return call.args[:1]
    return []


def assignments(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """What each name of a module is set to, wherever that is."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                given.setdefault(ast.unparse(target), []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and node.value:
            given.setdefault(ast.unparse(node.target), []).append(node.value)
        elif isinstance(node, ast.AugAssign):
            given.setdefault(ast.unparse(node.target), []).append(ast.BinOp(node.target, node.op, node.value))
    return given


def is_assembled(statement: ast.expr, given: dict[str, list[ast.expr]], seen: set[str]) -> bool:
    """Whether a statement comes out of an operation on strings."""
    match statement:
        case ast.JoinedStr() | ast.BinOp(op=ast.Add() | ast.Mod()):
            return True
        case ast.Name(id=name) if name not in seen:
            return any(is_assembled(value, given, seen | {name}) for value in given.get(name, []))
        case ast.IfExp(body=body, orelse=orelse):
            return is_assembled(body, given, seen) or is_assembled(orelse, given, seen)
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Attribute(attr="SQL")), attr="format")):
            return False  # psycopg's own way to quote the names of schemas, roles and databases
        case ast.Call(func=ast.Attribute(attr="format" | "replace" | "join" | "strip")):
            return True
    return False


def test_every_statement_is_written_once_and_used() -> None:
    """No module of the store sets the name of a statement twice, or has a statement of its own that it never sends."""
    twice, unused = [], []
    for path in Path(store.__path__[0]).rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for name, values in assignments(ast.parse(source)).items():
            twice += [f"{path.name}: {name}"] if name.isupper() and len(values) > 1 else []
        private = set(re.findall(r"^(_[A-Z_]+) = ", source, re.MULTILINE))
        unused += [f"{path.name}: {name}" for name in private if len(re.findall(rf"\b{name}\b", source)) == 1]
    assert (twice, unused) == ([], [])


def texts() -> dict[str, str]:
    """Each whole text of the store, by the name of its constant."""
    modules = [import_module(found.name) for found in walk_packages(store.__path__, f"{store.__name__}.")]
    return {
        f"{module.__name__.removeprefix('agent.store.')}.{name}": value.text
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, TextClause)
    }


def test_every_statement_heeds_a_pause_in_the_same_words() -> None:
    """A pause of everything, of the agent, or of an ancestor stops a run; a program's request has no ancestors."""
    found: dict[str, set[str]] = {}
    for name, sql in texts().items():
        for condition in re.findall(r"EXISTS \(SELECT 1 FROM pause WHERE (.*?(?:_agents\)|agent\)))\)", sql):
            found.setdefault(re.sub(r"\w+\.(?=a)", "run.", condition), set()).add(name)
    assert found == {
        "scope IN ('*', run.agent) OR scope = ANY (run.ancestor_agents)": {
            "call_locks._CALL",
            "run_leases._TAKE_LEASE",
            "claimable_calls.READ",
            "due_work._DUE",
            "due_work._UNSERVED",
            "views.open_calls._HANDED_OUT",
        },
        "scope IN ('*', run.agent)": {"approvals._APPROVAL", "due_work._DUE"},
    }


WHOEVER_EXECUTES = {
    "calls._DELEGATE": "the call is locked and judged, and a constraint lets only calls executed here delegate",
    "calls._DOUBT": "it follows an attempt, which the call's executor made",
    "calls._JUDGE_AGAIN": "it begins nothing: a question is withdrawn",
    "calls._STOP": "it begins nothing: what was approved ends",
}
"""Statements about begun or beginning calls that name no executor and no proposer, and why they need not."""


def test_every_statement_about_begun_calls_says_whose() -> None:
    """What reads or sets `ready` or `claimed` names the executor or the run: a worker takes no program's call."""
    begun = {
        n: sql for n, sql in texts().items() if "tool_call" in sql and re.search("'(ready|claimed)'", sql)
    }
    open_to_all = {name for name, sql in begun.items() if not re.search(r"\b(executor|run_id)\b", sql)}
    assert len(begun) > len(WHOEVER_EXECUTES)
    assert open_to_all == set(WHOEVER_EXECUTES)


def test_one_key_is_read_like_many() -> None:
    """The statement for one key differs from that for many only in which it picks, not in what it reads of it."""
    one, many = (texts()[name].partition("FROM api_key")[0] for name in ("api_keys._LOCK", "api_keys._LIST"))
    assert one == many
