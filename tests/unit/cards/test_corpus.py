"""Random actions through every builder: Slack's models, and the rules that no validator checks.

The seed is in the message of a failure; `--hypothesis-seed` repeats it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest

from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_list import Count, HistoryLine, RequestLine
from agent.domain.request_view import Change, VoteView
from agent.domain.run import RunStatus
from signoff.canonical import canonical_bytes
from signoff.values import Action, Person, Risk
from slackbot import cards
from tests.stress.budget import full
from tests.stress.rounds import counted
from tests.unit.cards.conftest import make_run

AT = datetime(2027, 1, 30, 9, 0, tzinfo=UTC)
CARRY = "n0nce_n0nce.01930000-0000-7000-8000-000000000001.1 C0REVIEW 1700000000.000100"
WORDS = [
    "refund", "Zürich", "order 7", "<@U0BOSS>", "<!here>", "https://evil.example", "a & b < c > d", "\u202etxt",
    "1,499.00", "yes", "null", "line\nline", "\n\n\n\n\n", "```", "*bold*", "✅ Approved", "日本語", "👩\u200d💻",
    "e\u0301\u0301\u0301\u0301\u0301", "2026-12-24", "2026-12-24T10:00:00Z", " padded ", "\t", "\r\n", "", "0071",
    "x" * 200, "&" * 300, "⚠\ufe0f", "⟦redacted x, 3⟧",
]  # fmt: skip
NAMES = [
    "amount", "price", "currency", "note", "order_id", "items", "before", "after", "old", "new", "<!channel>", "a.b",
    "", "plan", "date", "n" * 300, "ключ", "\u200bkey", "card_number",
]  # fmt: skip


# ---------------------------------------------------------------- what agents and tools can store
@dataclass(frozen=True)
class Made:
    """Arguments with a schema that says, mostly truly, what they are."""

    arguments: dict[str, Any]
    schema: dict[str, Any]


def text(random: Random) -> str:
    made = random.choice((" ", "", "\n")).join(random.choices(WORDS, k=random.choice((0, 1, 1, 2, 5))))
    return made if random.random() < 0.99 else made * random.randrange(2, 200)


def number(random: Random) -> float:
    return random.choice(
        (0, 1, -1, 7, 1499, 1499.5, 0.1, 1e-7, 1e21, 2**53 - 1, 1 - 2**53, random.randrange(10**9))
    )


def value(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(5 if depth > 2 else 8)
    match kind:
        case 0:
            return number(random)
        case 1:
            return random.choice((None, True, False))
        case 5:
            return [value(random, depth + 1) for _ in range(random.randrange(5))]
        case 6:
            return {random.choice(NAMES): value(random, depth + 1) for _ in range(random.randrange(5))}
        case 7:
            return [text(random) for _ in range(random.randrange(5))]
        case _:
            return text(random)


def rules_for(random: Random, given: Any) -> dict[str, Any]:
    """A schema that the value fits, as pydantic would write it; sometimes one that it does not."""
    if random.random() < 0.1:
        given = value(random, 3)
    match given:
        case bool():
            rules: dict[str, Any] = {"type": "boolean"}
        case int() | float():
            whole = isinstance(given, int) and random.random() < 0.7
            rules = {"type": "integer" if whole else "number", "minimum": random.choice((0, given, -1e30))}
        case str():
            rules = random.choice(
                (
                    {"type": "string"},
                    {"type": "string", "maxLength": random.choice((1, 50, 5000))},
                    {"type": "string", "format": random.choice(("date", "date-time", "uuid"))},
                    {"enum": [given, *random.sample(WORDS, 3)], "type": "string"},
                    {"enum": [f"{given[:70]}{n}" for n in range(random.choice((2, 100, 101)))]},
                )
            )
        case list():
            rules = {"type": "array", "items": {}}
        case dict():
            rules = {"$ref": "#/$defs/Inner"}
        case _:
            rules = {}
    if random.random() < 0.3:
        rules = {"anyOf": [rules, {"type": "null"}], "default": None}
    return rules | ({"description": text(random)} if random.random() < 0.3 else {})


def made(random: Random) -> Made:
    names = random.sample(NAMES, random.choice((0, 1, 3, 5, 9)))
    arguments = {name: value(random) for name in names}
    properties = {name: rules_for(random, each) for name, each in arguments.items() if random.random() < 0.9}
    if random.random() < 0.3:
        properties["absent"] = rules_for(random, value(random))
    required = [name for name in properties if random.random() < 0.6]
    inner = {"type": "object", "properties": {"x": {"type": "string"}}}
    schema = {"type": "object", "properties": properties, "required": required, "$defs": {"Inner": inner}}
    return Made(arguments, schema)


def worst() -> Iterator[Made]:
    """The largest, deepest and ugliest that can be stored."""

    def of(arguments: dict[str, Any]) -> Made:
        kinds = {str: "string", int: "integer", list: "array", dict: "object"}
        rules = {name: {"type": kinds[type(each)]} for name, each in arguments.items()}
        return Made(arguments, {"type": "object", "properties": rules, "required": list(rules)})

    deep: Any = "x"
    for _ in range(60):
        deep = [deep, "y"]
    yield of({"body": "& <b>\n" * 17_000})
    yield of({"body": "\u202e" * 40_000})
    yield of({"body": "👍" * 30_000})
    yield of({"body": "a\u0301" * 40_000})
    yield of({f"key {n}": "v" for n in range(9_000)})
    yield of({f"key {n}": "日" * 2_900 for n in range(25)})
    yield of({f"key {n}": "&" * 599 for n in range(90)})
    yield of({f"{n}" + "n" * 5_000: n for n in range(30)})
    yield of({"numbers": [*range(40_000)]})
    yield of({"rows": [{"before": {"a": n}, "after": {"a": n + 1}} for n in range(2_000)]})
    yield of({"deep": [deep]})
    yield of({"before": {f"k{n}": n for n in range(5_000)}, "after": {f"k{n}": -n for n in range(5_000)}})
    yield of({"before": "line\n" * 9_000, "after": "Line\n" * 9_000})
    yield of({"page": {"old": "a\n" * 3_000, "new": "b\n" * 3_000}})
    yield of({"blank": " " * 90_000 + "end", "breaks": "\n" * 50_000})
    yield of({"": "", " ": " ", "\n": "\n"})


# ---------------------------------------------------------------- everything that is drawn from it
def view_of(random: Random, samples: Any, given: Made) -> Any:
    action = Action(text(random)[:200] or "tool", "1", given.arguments)
    person = Person("T0TEAM", "U0GRACE")
    votes = tuple(VoteView(person, Verdict.APPROVE, text(random), AT) for _ in range(random.randrange(8)))
    edits = tuple(Change(f"$.{name}", value(random), each) for name, each in given.arguments.items())
    status = random.choice(list(RequestStatus))
    state: dict[str, Any] = {} if random.random() < 0.6 else samples.decided(status, text(random))
    view = samples.view(
        id=UUID(int=random.getrandbits(128)),
        action=action,
        digest=action.digest,
        facts=random.choice((None, value(random), given.arguments, {"price": 5, "note": text(random)})),
        previous_facts=random.choice((None, None, given.arguments, {"price": 4})),
        description=text(random),
        rationale=text(random),
        risk=random.choice(list(Risk)),
        approvals_required=random.randrange(1, 6),
        votes=votes,
        link=random.choice((None, "https://shop.example/orders/7", text(random))),
        allow_edit=True,
        editor=random.choice((None, person)),
        changes=edits if random.random() < 0.2 else (),
        reason_required=frozenset(random.choice(((), ("approve",), ("reject",), ("approve", "reject")))),
        reject_reasons=tuple(f"{n} {text(random)}"[:75] for n in range(random.choice((0, 2, 10, 20)))),
        redact=random.choice(((), ("card_number",), ("args.note", "amount"))),
        escalated=random.random() < 0.2,
        context={
            "task": text(random),
            "transcript": [{"role": text(random), "text": text(random)} for _ in range(random.randrange(6))],
            "earlier_calls": [{"tool": text(random), "state": "answered", "answer": value(random)}],
            "more": value(random),
        },
    )
    view = replace(view, facts=view.facts if isinstance(view.facts, dict) else None)
    return replace(view, **{name: each for name, each in state.items() if name != "votes"})


def untouched(view: dict[str, Any]) -> dict[str, Any]:
    """`view.state.values` of a form that nobody has changed, as Slack would send it."""
    names: dict[str, tuple[str, str, Any]] = {
        "plain_text_input": ("value", "initial_value", None),
        "number_input": ("value", "initial_value", None),
        "datepicker": ("selected_date", "initial_date", None),
        "static_select": ("selected_option", "initial_option", None),
        "radio_buttons": ("selected_option", "initial_option", None),
        "checkboxes": ("selected_options", "initial_options", []),
    }
    values: dict[str, Any] = {}
    for block in view["blocks"]:
        if block["type"] == "input":
            element = block["element"]
            name, initial, empty = names[element["type"]]
            state = {"type": element["type"], name: element.get(initial, empty)}
            values[block["block_id"]] = {element["action_id"]: state}
    return values


def judge_request(view: Any, schema: dict[str, Any], referee: Any) -> None:
    """Every other surface of one request."""
    referee.judge(cards.request_details(view))
    pages = cards.details_pages(view)
    for page in {1, pages}:
        referee.judge_view(cards.details_modal(view, page))
    referee.judge_view(cards.vote_modal(Verdict.REJECT, view, CARRY))
    referee.judge_view(cards.vote_modal(Verdict.APPROVE, view, CARRY))
    form = cards.edit_modal(view, schema, CARRY)
    referee.judge_view(form)
    arguments, errors = cards.read_edit(untouched(form), schema, view.action)
    if set(schema["required"]) <= set(view.action.arguments):
        assert not errors, "an untouched form of complete arguments has no error"
        assert canonical_bytes(arguments) == canonical_bytes(view.action.arguments)


def judge_lists(random: Random, views: list[Any], referee: Any) -> None:
    """App Home, lists, digest and lines, each full of these requests."""
    person = Person("T0TEAM", "U0ADA")
    lines = [
        HistoryLine(
            each.id, each.description, each.agent, each.risk, each.status, person, AT, AT + timedelta(days=1),
            "C0REVIEW", None, 0, 1, person, AT, each.rationale, ("C0REVIEW", "1.1"),
        )
        for each in views
    ]  # fmt: skip
    rows = [
        RequestLine(
            each.id,
            each.description,
            each.agent,
            each.risk,
            each.status,
            None,
            AT,
            AT,
            "C0REVIEW",
            None,
            1,
            2,
        )
        for each in views
    ]
    runs = [
        make_run(
            id=each.id,
            agent=each.agent,
            task=each.description,
            status=random.choice(list(RunStatus)),
            cause=text(random),
            requester=person,
        )
        for each in views
    ]  # fmt: skip
    ids = frozenset(each.id for each in runs)
    pages = cards.Pages(cards.page_value("x", page=1), cards.page_value("x", after=text(random)[:50]))
    referee.judge(cards.request_list(rows, pages=pages))
    referee.judge(cards.history_list(lines, pages=pages))
    referee.judge(cards.run_list(runs, more=True, cancellable=ids))
    referee.judge_view(cards.list_modal("Waiting", [cards.request_list(rows, pages=pages)]))
    home = cards.HomeView(views, rows, runs, lines, Count(len(views)), pages, pages, ids)
    referee.judge_view(cards.home(home))
    tools = {text(random): n for n in range(random.randrange(12))}
    referee.judge(
        cards.flood_digest_card(cards.FloodDigest(text(random), 37, Risk.HIGH, tools, AT, ("S0FINANCE",)))
    )
    for line in ("edited", "reminder", "escalated", "voted", "rejected"):
        changed = [{"path": f"$.{text(random)}", "before": value(random), "after": value(random)}]
        body = {
            "line": line,
            "people": ["U0ADA", "S0FINANCE", "<!here>"],
            "at": AT.isoformat(),
            "text": text(random),
        }
        referee.judge(
            cards.thread_line({**body, "user": "U0ADA", "reason": text(random), "changes": changed})
        )


def run(seed: int, size: int, samples: Any, referee: Any, every: int = 1) -> None:
    """`size` actions on their cards, and `every` so many of them through everything else."""
    random = Random(seed)
    views: list[Any] = []
    for position in counted(range(size)):
        given = made(random)
        view = view_of(random, samples, given)
        try:
            referee.judge(cards.request_card(view, delivery_id="d"))
            if position % every:
                continue
            judge_request(view, given.schema, referee)
            views.append(view)
            if len(views) == 24:
                judge_lists(random, views, referee)
                views = []
        except Exception as error:
            raise AssertionError(f"seed {seed}, action {position}: {error!r}"[:2000]) from error


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--hypothesis-seed") or secrets.randbits(32))


def test_random_actions_through_every_builder(seed: int, samples: Any, referee: Any) -> None:
    """Whatever an agent asks for, its card is one that Slack takes, and so is every form, page and list of many."""
    run(seed, 300, samples, referee, every=10)


@pytest.mark.stress
def test_ten_thousand_actions_through_every_builder(seed: int, samples: Any, referee: Any) -> None:
    """The same at its full size: no live mention or link, no unmarked character, no broken limit."""
    run(seed, full(10_000), samples, referee, every=4)


@pytest.mark.parametrize(
    "given", list(worst()), ids=lambda given: next(iter(given.arguments))[:12] or "blank"
)
def test_the_worst_actions(given: Made, seed: int, samples: Any, referee: Any) -> None:
    """A hundred kilobytes of anything still make a card, a form and pages that hold every byte."""
    random = Random(seed)
    view = samples.view(arguments=given.arguments, allow_edit=True, facts={"note": text(random)})
    referee.judge(cards.request_card(view))
    judge_request(view, given.schema, referee)
    referee.judge_view(cards.home(cards.HomeView([replace(view, id=UUID(int=n)) for n in range(2)])))


@pytest.mark.parametrize("said", ["", " \n"])
def test_what_says_nothing_is_named_by_its_id(said: str, seed: int, samples: Any, referee: Any) -> None:
    """A request whose description and tool are blank has a title wherever requests are named."""
    view = samples.view(description=said, action=Action(" ", "1", {}))
    home = cards.home(cards.HomeView([view]))
    referee.judge_view(home)
    assert "request 01930000" in json.dumps(home)
    judge_request(view, {"type": "object", "properties": {}, "required": []}, referee)
    judge_lists(Random(seed), [view], referee)
