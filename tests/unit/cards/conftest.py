"""A check of every payload by Slack's rules that does not use our own code."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

import pytest
from slack_sdk.models.blocks import Block
from slack_sdk.models.blocks.block_elements import BlockElement
from slack_sdk.models.views import View

from agent.domain.request import ExecutionStatus, RequestStatus, Verdict
from agent.domain.request_view import DecisionView, ExecutionView, RequestView, VoteView
from agent.domain.rules import Rule
from agent.domain.run import RunStatus, RunView
from signoff import visible_text
from signoff.values import Action, Person, Risk
from slackbot.cards import Card

# Cached, because Slack's validators search all classes for each element.
_kinds_of = BlockElement._get_sub_block_elements.__func__  # type: ignore[attr-defined]
BlockElement._get_sub_block_elements = classmethod(cache(lambda cls: tuple(_kinds_of(cls))))  # type: ignore[assignment,method-assign,arg-type]
# One attack is drawn in dozens of places, and searched for in each.
visible_text.hidden_positions = lru_cache(64)(visible_text.hidden_positions)

CREATED = datetime(2027, 1, 30, 9, 0, tzinfo=UTC)
ADA, GRACE = Person("T0TEAM", "U0ADA"), Person("T0TEAM", "U0GRACE")
NONCE = "n0nce_n0nce-n0nce_n0nce"
KNOWN_IDS = frozenset({"U0ADA", "U0GRACE", "S0FINANCE", "C0REVIEW"})
OUR_LINK = "https://team.slack.com/archives/C0REVIEW/p1"
RULE = Rule(
    checkpoint_id="refund-over-limit",
    action_pattern="process_refund",
    risk=Risk.HIGH,
    approvers=("S0FINANCE",),
    notify=("S0FINANCE",),
    on_reject="stop",
    money=("facts.price", "args.amount"),
)


def make_view(**changes: Any) -> RequestView:
    """A waiting high-risk refund; `arguments` makes another action with its digest, a term of a rule another rule."""
    arguments = changes.pop("arguments", {"order_id": 7, "amount": 1499})
    action = changes.pop("action", Action("process_refund", "3", arguments))
    view = RequestView(
        call_id=UUID(int=7),
        id=UUID("01930000-0000-7000-8000-000000000001"),
        status=RequestStatus.WAITING,
        revision=1,
        action=action,
        digest=action.digest,
        facts={"price": 1499.0, "currency": "EUR", "paid_at": "2026-12-24T10:00:00Z"},
        previous_facts=None,
        description="Refund 1,499.00 for order 7",
        rationale="The customer got the wrong size.",
        agent="refunds",
        agent_version="2",
        run_id=UUID("01930000-0000-7000-8000-000000000002"),
        source="run",
        requester=ADA,
        requester_asserted="slack",
        rule=RULE,
        checkpoint_id="refund-over-limit",
        risk=Risk.HIGH,
        approvers=("S0FINANCE",),
        approvals_required=1,
        team_id="T0TEAM",
        channel_id="C0REVIEW",
        created_at=CREATED,
        expires_at=CREATED + timedelta(hours=24),
        place_nonce=NONCE,
    )
    terms = {name: given for name, given in changes.items() if name in Rule.model_fields}
    of_view = {field.name for field in fields(RequestView)}
    changes = {name: given for name, given in changes.items() if name in of_view or name not in terms}
    return replace(view, rule=RULE.model_copy(update=terms), **changes)


def make_run(**changes: Any) -> RunView:
    """A run of Grace's that works."""
    run = RunView(
        id=UUID(int=3),
        agent="refunds",
        agent_version="1",
        task="Refund it",
        status=RunStatus.WORKING,
        cause=None,
        requester=GRACE,
        parent_run_id=None,
        channel_id="C0REVIEW",
        thread_ts=None,
        turn=1,
        steps=1,
        tokens=1,
        awaiting_calls=0,
        created_at=CREATED,
        updated_at=CREATED,
    )
    return replace(run, **changes)


def decided(outcome: RequestStatus, reason: str | None = None, who: Person | None = GRACE) -> dict[str, Any]:
    at = CREATED + timedelta(minutes=5)
    verdict = Verdict.APPROVE if outcome is RequestStatus.APPROVED else Verdict.REJECT
    votes = (VoteView(who, verdict, reason, at),) if who else ()
    return {"status": outcome, "decision": DecisionView(outcome, who, reason, at), "votes": votes}


def executed(status: ExecutionStatus, error: str | None = None, **changes: Any) -> dict[str, Any]:
    started = CREATED + timedelta(minutes=6)
    over = None if status is ExecutionStatus.CLAIMED else started + timedelta(seconds=1.2)
    attempt = UUID("01930000-0000-7000-8000-000000000009")
    execution = replace(ExecutionView(attempt, 1, status, started, over, error), **changes)
    return {**decided(RequestStatus.APPROVED), "execution": execution}


@dataclass(frozen=True)
class Samples:
    view: Callable[..., RequestView] = make_view
    decided: Callable[..., dict[str, Any]] = decided
    executed: Callable[..., dict[str, Any]] = executed


@pytest.fixture(scope="session")
def samples() -> Samples:
    return Samples()


# ---------------------------------------------------------------- reading a payload
Parts = list[tuple[tuple[str, ...], dict[str, Any]]]


def walk(value: Any) -> Parts:
    """In reading order, with the types of the objects around each."""
    found: Parts = []
    ahead: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while ahead:
        path, part = ahead.pop()
        if isinstance(part, dict):
            found.append((path, part))
            within = (*path, str(part.get("type")))
            ahead += [(within, each) for each in reversed(part.values()) if isinstance(each, dict | list)]
        else:
            ahead += [(path, each) for each in reversed(part) if isinstance(each, dict | list)]
    return found


def words(payload: Any) -> str:
    """In reading order; mentions by id."""
    keys = ("text", "user_id", "usergroup_id", "fallback", "channel_id")
    return "".join(part[key] for _, part in walk(payload) for key in keys if isinstance(part.get(key), str))


def buttons(card: Card) -> dict[str, dict[str, Any]]:
    return {part["text"]["text"]: part for _, part in walk(card.blocks) if part.get("type") == "button"}


# ---------------------------------------------------------------- the referee
BLANKS = set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
SIGNS = set("✅❌⌛⏳🚫⚠▶↩")
DATE = re.compile(r"<!date\^\d+\^\{date_short_pretty\} \{time\}\|\d{4}-\d\d-\d\d \d\d:\d\d UTC>")
MENTION = re.compile(r"<(?:@|!subteam\^)([A-Z0-9]+)>")
ALIVE = {
    "angle bracket": re.compile(r"[<>]"),
    "ampersand": re.compile(r"&(?!(?:amp|lt|gt);)"),
    "link": re.compile(r"[^\W\d]:\S|\w:[^\s\d…]|www\.|\w\.[^\W\d_]{2}", re.IGNORECASE),
    "broadcast": re.compile(r"[@#]\w"),
    "format": re.compile(r"[*~`]|(?<![^\W_])_|_(?![^\W_])"),
    "emoji name": re.compile(r":[\w+'-]+:"),
}


def slack_length(text: str) -> int:
    """Slack's count: entities have three characters, and the rest is UTF-16."""
    if text.isascii():
        return len(text) + 4 * text.count("&") + 3 * (text.count("<") + text.count(">"))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


_ISOLATE = re.compile('(?<=[“«"])\u2068([^\u2066-\u2069]*)\u2069(?=(… [0-9,]+ more characters)?)')


def _right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(each) in {"R", "AL"} for each in text)


def invisible(text: str) -> list[str]:
    """Line breaks are allowed, and so is an isolate around a right-to-left text that follows a quotation mark.

    What made it right-to-left may be in the part that was cut off.
    """
    text = _ISOLATE.sub(lambda found: found[1] if found[2] or _right_to_left(found[1]) else found[0], text)
    if text.isascii() and text.replace("\n", "").isprintable():
        return []
    found, marks, before = [], 0, ""
    for c in text:
        is_mark, is_style, hidden = character_kind(c)
        marks = marks + 1 if is_mark else 0
        if is_style:
            hidden = not before or not character_can_be_styled(before)
        if hidden or marks > 3:
            found.append(f"U+{ord(c):04X}")
        before = c
    return found


@cache
def character_kind(c: str) -> tuple[bool, bool, bool]:
    """Combining mark, variation selector, invisible."""
    category = unicodedata.category(c)
    selector = 0xFE00 <= ord(c) <= 0xFE0F or 0xE0100 <= ord(c) <= 0xE01EF
    hidden = category in ("Cf", "Cs", "Co", "Cn", "Zl", "Zp") or (category == "Cc" and c != "\n")
    return category.startswith("M"), c in "\ufe0e\ufe0f", selector or hidden or c in BLANKS


@cache
def character_can_be_styled(c: str) -> bool:
    return c in "#*0123456789" or unicodedata.category(c) in ("So", "Sm", "Po")


def assert_mrkdwn_is_dead(text: str, ids: frozenset[str]) -> None:
    """No mrkdwn is active but dates and mentions of these ids."""
    assert set(MENTION.findall(text)) <= ids, text
    rest = MENTION.sub("", DATE.sub("", text))
    alive = {name: pattern.search(rest) for name, pattern in ALIVE.items()}
    assert not any(alive.values()), (alive, text)
    assert not invisible(text), (invisible(text), text)
    assert "\n" not in text, text


def assert_rich_text_is_inert(parts: Parts, ids: frozenset[str]) -> None:
    """Live elements have known ids; hostile text has no sign of ours outside quotes and boxes."""
    for path, part in parts:
        kind = part.get("type")
        for key in ("user_id", "usergroup_id", "channel_id"):
            assert part.get(key, "C0REVIEW") in ids, part
        assert kind not in {"broadcast", "emoji", "color", "image", "markdown"}, part
        assert kind != "link" or part["url"] == OUR_LINK, part
        if kind == "plain_text":
            assert part["emoji"] is False, part
        if kind in {"text", "plain_text", "mrkdwn"}:
            assert part["text"], (path, "empty text")
            assert not invisible(part["text"]), (invisible(part["text"]), part)
            quoted = {"rich_text_quote", "rich_text_preformatted"} & set(path)
            assert quoted or not SIGNS & set(part["text"][1:]), part
            assert quoted or "\n" not in part["text"], part
            assert "\n\n\n" not in part["text"], part


def assert_limits(card: Card, parts: Parts) -> None:
    """Slack's documented limits, the undocumented one of all blocks together, and what no validator catches."""
    assert 1 <= len(card.blocks) <= 50
    assert 1 <= len(card.text.encode("utf-16-le")) // 2 <= 3000  # escaped already
    assert assert_blocks(card.blocks, parts) < 12_000


@cache
def validate_block(block: str) -> None:
    """Cached, because most blocks of a test recur."""
    (parsed,) = Block.parse_all([json.loads(block)])
    parsed.validate_json()


def assert_blocks(blocks: list[dict[str, Any]], parts: Parts) -> int:
    """Return the length of all texts together."""
    for block in blocks:
        validate_block(json.dumps({**block, "block_id": ""}))
    assert len({block["block_id"] for block in blocks}) == len(blocks)
    total = 0
    for path, part in parts:
        kind, text = part.get("type"), part.get("text")
        if "fallback" in part:
            total += slack_length(part["fallback"])
        total += slack_length(part.get("accessibility_label", ""))
        if isinstance(text, str):
            length = slack_length(text)
            total += length
            assert length <= (150 if "header" in path else 300 if "button" in path else 3000)
        if kind == "actions":
            assert 1 <= len(part["elements"]) <= 25
            assert len({each["action_id"] for each in part["elements"]}) == len(part["elements"])
        if kind == "button":
            assert_button(part)
        if kind in {
            "rich_text",
            "rich_text_section",
            "rich_text_list",
            "rich_text_quote",
            "rich_text_preformatted",
        }:
            assert part["elements"], part
        if kind == "section":
            assert slack_length(part["text"]["text"]) <= 3000
        assert len(part.get("block_id", "")) <= 255
        assert len(part.get("action_id", "")) <= 255
    return total


def assert_button(part: dict[str, Any]) -> None:
    assert 1 <= slack_length(part["text"]["text"]) <= 30
    assert ("value" in part) != ("url" in part)
    assert len(part.get("value", "")) <= 2000
    assert len(part.get("url", "")) <= 3000
    assert_spoken(part["text"]["text"], part.get("accessibility_label", ""))
    assert_confirm(part.get("confirm"))


def assert_spoken(shown: str, label: str) -> None:
    """What is read aloud begins with what is shown, and says of what; Slack allows 75 characters."""
    assert label.startswith(f"{shown}: "), (shown, label)
    assert len(f"{shown}: ") < len(label) <= slack_length(label) <= 75, label
    assert not invisible(label), label
    assert "\n" not in label, label


INITIAL = {
    "plain_text_input": "initial_value",
    "number_input": "initial_value",
    "datepicker": "initial_date",
    "static_select": "initial_option",
    "radio_buttons": "initial_option",
    "checkboxes": "initial_options",
    "multi_static_select": "initial_options",
    "users_select": "initial_user",
}
MAX_OPTIONS = {"static_select": 100, "radio_buttons": 10, "checkboxes": 10, "multi_static_select": 100}


def judge_view(view: dict[str, Any], ids: frozenset[str] = KNOWN_IDS) -> None:
    """No text is live."""
    View(**{**view, "blocks": [{"type": "divider"}]}).validate_json()  # its own blocks come below
    assert 1 <= len(view["blocks"]) <= 100
    assert len(json.dumps(view).encode()) <= 250_000
    parts = walk(view["blocks"])
    assert assert_blocks(view["blocks"], parts) <= (250_000 if any_input(view) else 24_000)
    assert_rich_text_is_inert(parts, ids)
    for part in (view.get(name) for name in ("title", "submit", "close")):
        assert part is None or 1 <= slack_length(part["text"]) <= 24
        assert part is None or not invisible(part["text"])
    assert len(view.get("private_metadata", "")) <= 3000
    assert len(view.get("callback_id", "")) <= 255
    assert view["type"] == "home" or not any_input(view) or "submit" in view
    for block in view["blocks"]:
        if block["type"] == "input":
            assert_input(block)
    for _, part in parts:
        if part.get("type") == "mrkdwn":
            assert part["verbatim"] is True
            assert_mrkdwn_is_dead(part["text"], ids)
    focused = [part for _, part in parts if part.get("focus_on_load")]
    assert len(focused) <= 1


def any_input(view: dict[str, Any]) -> bool:
    """Inputs have their own limits, which may exceed those of text together."""
    return any(block["type"] == "input" for block in view["blocks"])


def assert_input(block: dict[str, Any]) -> None:
    """The initial value must be a valid one."""
    element = block["element"]
    assert 1 <= slack_length(block["label"]["text"]) <= 2000
    assert 1 <= slack_length(block.get("hint", {"text": "-"})["text"]) <= 2000
    begin = element.get(INITIAL[element["type"]])
    if element["type"] == "plain_text_input":
        assert slack_length(begin or "") <= 3000
        assert len(begin or "") <= element.get("max_length", 3000) <= 3000
        assert not invisible(begin or "")
        assert begin != ""
    if element["type"] == "number_input" and begin is not None:
        assert re.fullmatch(r"-?\d+(\.\d+)?", begin)
        assert (
            float(element.get("min_value", begin)) <= float(begin) <= float(element.get("max_value", begin))
        )
    if element["type"] == "datepicker" and begin is not None:
        assert date.fromisoformat(begin).isoformat() == begin
    if element["type"] in MAX_OPTIONS:
        options = element["options"]
        assert 1 <= len(options) <= MAX_OPTIONS[element["type"]]
        for option in options:
            assert 1 <= slack_length(option["text"]["text"]) <= 75
            assert 1 <= len(option["value"]) <= 75
        assert len({option["value"] for option in options}) == len(options)
        chosen = begin if isinstance(begin, list) else [begin] if begin else []
        assert begin != []
        assert all(each in options for each in chosen)


def assert_confirm(confirm: dict[str, Any] | None) -> None:
    if confirm is not None:
        for key, limit in (("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)):
            assert 1 <= slack_length(confirm[key]["text"]) <= limit


def judge(card: Card, ids: frozenset[str] = KNOWN_IDS) -> None:
    parts = walk(card.blocks)
    assert_limits(card, parts)
    assert_mrkdwn_is_dead(card.text, ids)
    assert_rich_text_is_inert(parts, ids)
    for _, part in parts:
        if part.get("type") == "mrkdwn":
            assert part["verbatim"] is True
            assert_mrkdwn_is_dead(part["text"], ids)


@dataclass(frozen=True)
class Referee:
    judge: Callable[..., None] = judge
    judge_view: Callable[..., None] = judge_view
    words: Callable[[Any], str] = words
    buttons: Callable[[Card], dict[str, dict[str, Any]]] = buttons
    walk: Callable[[Any], list[tuple[tuple[str, ...], dict[str, Any]]]] = walk
    invisible: Callable[[str], list[str]] = invisible
    slack_length: Callable[[str], int] = slack_length
    mrkdwn: Callable[[str, frozenset[str]], None] = assert_mrkdwn_is_dead


@pytest.fixture(scope="session")
def referee() -> Referee:
    return Referee()
