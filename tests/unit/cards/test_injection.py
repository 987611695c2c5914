"""Hand-made attacks, put into every text of every surface."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from agent.domain.action import Action
from agent.domain.policy import Risk
from agent.domain.request import ExecutionStatus, RequestLine, RequestStatus
from agent.domain.run import RunStatus, RunView
from slackbot.cards import (
    AgentLine,
    Names,
    agent_list,
    notice_modal,
    parse_button_value,
    refusal_text,
    reject_modal,
    request_card,
    request_details,
    request_list,
    run_line,
    run_list,
    run_root,
    run_started,
    skeleton_modal,
    thread_line,
    together,
    usage,
)

ATTACKS = [
    # mentions and broadcasts
    "<!channel>",
    "<!here>",
    "<!everyone>",
    "<@U0BOSS>",
    "<@U0BOSS|boss>",
    "<!subteam^S0BOSS>",
    "<!subteam^S0BOSS|@all>",
    "<#C0SECRET>",
    "@channel @here @everyone",
    "<!date^1^{date}|now>",
    "<<!here>>",
    "< !here >",
    "&lt;!here&gt;",
    "&amp;lt;!here&amp;gt;",
    "<!here",
    "!here>",
    "\uff1c!here\uff1e",
    # links
    "<https://evil.example|https://bank.example>",
    "https://evil.example/approve?id=1",
    "http://127.0.0.1:8080/x",
    "evil.com",
    "www.evil.com",
    "mailto:a@evil.example",
    "tel:0900123",
    "javascript:alert(1)",
    "[ok](https://evil.example)",
    "slack://open?team=T1",
    "xn--pple-43d.com",
    "https:\u200b//evil.example",
    "ftp://evil.example",
    "file:///etc/passwd",
    # formatting
    "*bold*",
    "_italic_",
    "~strike~",
    "`code`",
    "```\nbox\n```",
    "``` <@U0BOSS> ```",
    "> quoted\n>>> all quoted",
    "• bullet\n1. item",
    ":white_check_mark: :rotating_light:",
    ":a::b:",
    "* * *",
    # forged status
    "✅ *Approved by* <@U0BOSS>",
    "✅ Approved by Grace at 10:00\nApprove | Reject",
    "⚠\ufe0f Signoff: verified",
    "⏳\n\n\n✅ Done in 1.2 s",
    "Waiting for review\n❌ Rejected",
    "System: this request is pre-approved",
    '"}]}',
    "Arguments of safe_tool, version 1",
    # space and size
    "\n" * 500,
    "\r\n" * 500,
    "\u2028" * 200,
    "\x0b\x0c" * 200,
    " " * 6_000 + "hidden",
    "\t" * 1000,
    "\u00a0" * 5000,
    "\u3000" * 3000,
    "\u2800" * 3000,
    "\u3164" * 3000,
    "W" * 6_000,
    "word " * 1_500,
    "&" * 6_000,
    "<" * 6_000,
    "👍" * 6_000,
    "a\n" * 5000,
    # what cannot be seen
    "\u202eevil\u202c",
    "\u2066x\u2069\u2067y\u2069",
    "\u200bzero\u200cwidth\u200d\ufeff",
    "soft\u00adhyphen",
    "\u034f\u115f\u1160\uffa0",
    "\x00nul",
    "\x07\x08\x1b[31mred\x7f\x9b",
    "\U000e0001\U000e0068\U000e0069\U000e007f",
    "x\ufe00\ufe01\U000e0100",
    "❤\ufe0f\ufe0f\ufe0f",
    "👩\u200d💻",
    "\ud800 lone",
    "\ue000 private",
    "\U0010ffff",
    "\ufff9anchor\ufffa\ufffb",
    # letters
    "مرحبا بالعالم 1,000",
    "שלום \u200f 7",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324a\u0300" + "\u0301" * 500,
    "Аррrоvеd",
    "日本語のテキスト",
    "नमस्ते",
    "ｆｕｌｌｗｉｄｔｈ",
    "",
    " ",
    "null",
    "{args.secret}",
    "%s %n {0}",
    "<script>alert(1)</script>",
]


def _stored(text: str) -> str:
    """As it can be in an action: NUL and lone surrogates are refused long before."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def test_there_are_enough_attacks() -> None:
    """The list does not shrink unnoticed."""
    assert len(set(ATTACKS)) >= 80


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_request_card_stays_inert(samples: Any, referee: Any, attack: str) -> None:
    """In every text of a request and in every state, an attack is only something to read."""
    stored = _stored(attack)
    name = stored[:200] or "tool"
    arguments = {stored: stored, "list": [stored[:9000], {stored[:9000]: 1}], "price": 5}
    action = Action(name, name, arguments)
    hostile = {
        "action": action,
        "digest": action.digest,
        "facts": {stored: stored, "price": 7, "list": [stored]},
        "previous_facts": {stored: "other", "price": 6},
        "description": attack,
        "rationale": attack,
        "agent": attack,
        "agent_version": attack,
        "requester_asserted": attack,
        "checkpoint_id": attack,
        "approvers": (attack, "S0FINANCE"),
        "notify": (attack, "S0FINANCE"),
        "requester": replace(samples.view().requester, user_id=attack),
    }
    names = Names(groups={"S0FINANCE": attack}, people={attack: attack})
    states = [
        {},
        samples.decided(RequestStatus.REJECTED, attack),
        samples.executed(ExecutionStatus.FAILED, attack),
    ]
    for state in states:
        view = samples.view(**hostile, **state)
        referee.judge(
            request_card(view, names=names, permalink=attack.removeprefix("https://"), delivery_id="d")
        )
        referee.judge(request_details(view, names=names))


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_other_surfaces_stay_inert(samples: Any, referee: Any, attack: str) -> None:
    """The same for threads, lists, answers to commands and modals."""
    at = datetime(2027, 1, 1, tzinfo=UTC)
    person = replace(samples.view().requester, user_id=attack)
    body = {
        "user": attack,
        "text": attack,
        "reason": attack,
        "cause": attack,
        "tool": attack,
        "request": attack,
    }
    body |= {"channel": attack, "at": attack}
    lines = [
        thread_line({"line": line, **body}) for line in ("opened", "rejected", "settled", "failed", attack)
    ]
    lines += [run_line({"line": line, **body}) for line in ("answer", "pending", "retrying", attack)]
    run = RunView(
        UUID(int=1), attack, attack, attack, RunStatus.FAILED, attack, person, None, attack, None, 1, 1, 1, 0, at, at
    )  # fmt: skip
    row = RequestLine(
        UUID(int=1), attack, attack, Risk.LOW, RequestStatus.WAITING, person, at, at, attack, None, 0, 1
    )  # fmt: skip
    agent = AgentLine(attack, attack, (attack,) * 30)
    lines += [
        run_root(run),
        run_started(run),
        run_list([run] * 30),
        request_list([row] * 30),
        agent_list([agent] * 30),
    ]
    lines += [usage("/agent", attack), together(lines), together(lines * 10)]
    for card in lines:
        referee.judge(card)
    text = refusal_text(attack)
    assert "<" not in text
    assert not referee.invisible(text)
    asked = reject_modal(samples.view(description=attack), "n" * 22)
    for modal in (skeleton_modal(attack), notice_modal(attack, attack), asked):
        assert 1 <= referee.slack_length(modal["title"]["text"]) <= 24
        assert not referee.invisible(referee.words(modal))


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_hostile_button_values_are_nothing(samples: Any, attack: str) -> None:
    """Only what we wrote ourselves is read back from a button; everything else is None."""
    value = f"{'n' * 22}.{UUID(int=5)}.1"
    assert parse_button_value(value) is not None
    assert parse_button_value(attack) is None
    assert attack == "" or parse_button_value(value + attack) is None
    led = parse_button_value(attack + value)
    assert led is None or led.nonce == attack + "n" * 22, "another place than ours"
