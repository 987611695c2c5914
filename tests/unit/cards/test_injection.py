"""Hand-made attacks, put into every text of every surface."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from agent.domain.reports import AGES, LEFT, TOOK, GroupOutcomes, Outcomes, Report, ReviewerVotes, Share
from agent.domain.request import ExecutionStatus, RequestStatus
from agent.domain.request_list import HistoryLine, RequestLine
from agent.domain.request_view import Change, EarlierRejection
from agent.domain.run import RunStatus
from agent.domain.verdicts import ON_APPROVAL
from signoff.values import Action, Person, Risk
from slackbot.cards import (
    AgentForm,
    AgentLine,
    FloodDigest,
    HomeView,
    Names,
    agent_list,
    agent_modal,
    answer_modal,
    combine_lines,
    details_modal,
    details_pages,
    details_text,
    edit_modal,
    flood_digest_card,
    history_list,
    home,
    inert,
    json_text,
    misunderstood_command,
    notice_modal,
    parse_button_value,
    refusal_text,
    request_card,
    request_details,
    request_list,
    run_line,
    run_list,
    run_root,
    run_started,
    skeleton_modal,
    thread_line,
    usage,
    vote_modal,
)
from slackbot.cards.stats import stats
from tests.stress.rounds import counted
from tests.unit.cards.conftest import make_run


def report_about(name: str) -> Report:
    """A report on an agent, a rule and a reviewer of this name."""
    outcomes = Outcomes({"approved": 2, "rejected": 1, "expired": 1, "cancelled": 1})
    group = GroupOutcomes(name, outcomes, 60.0)
    votes = ReviewerVotes(Person("T0TEAM", name), {"approve": 2, "reject": 1}, 60.0, 1)
    return Report(
        days=7,
        everything=False,
        waiting_by_age=AGES.counts([(0, 1)]),
        waiting_by_deadline=LEFT.counts([(0, 1)]),
        outcomes=outcomes,
        by_day=(),
        took=TOOK.counts([(1, 3)]),
        median=60.0,
        slowest=90_000.0,
        agents=(group,),
        rules=(group,),
        reviewers=(votes,),
        unread=Share(1, 3),
        unread_by_risk=((Risk.HIGH, Share(1, 3)),),
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
    " " * 3_200 + "hidden",
    "\t" * 1000,
    "\u00a0" * 3_200,
    "\u3000" * 3000,
    "\u2800" * 3000,
    "\u3164" * 3000,
    "W" * 3_200,
    "word " * 1_500,
    "&" * 3_200,
    "<" * 3_200,
    "👍" * 3_200,
    "a\n" * 3_200,
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
VARIANTS = [
    # mentions: other spellings, other places
    "<!channel|channel>",
    "<!here|here>",
    "<!everyone|all>",
    "<!group>",
    "<!subteam^S0BOSS|>",
    "<@W0BOSS>",
    "<@U0BOSS|>",
    "<@U0BOSS",
    "@U0BOSS>",
    "<@u0boss>",
    "<@U0BOSS> <@U0BOSS> " * 50,
    "<\u200b!here>",
    "<!\u200dhere>",
    "<\u0021here>",
    "&#60;!here&#62;",
    "&lt;@U0BOSS&gt;",
    "%3C!here%3E",
    "\\u003c!here\\u003e",
    "＜@U0BOSS＞",
    "‹!here›",
    "<!here>\n<!here>",
    "x<!here>x",
    "`<!here>`",
    "```<!here>```",
    "*<!here>*",
    "<#C0SECRET|general>",
    "#general",
    "@grace",
    "@Grace Hopper",
    "＠channel",
    "<!date^1700000000^{date_long}^https://evil.example|click>",
    "<!date^99999999999999^{date}|x>",
    "<!foo^bar|label>",
    "<slackaction://x>",
    # links
    "<https://evil.example>",
    "<http://evil.example|Approve>",
    "<mailto:boss@bank.example|mail the boss>",
    "<tel:0900123|call>",
    "<slack://channel?team=T1&id=C1|open>",
    "<HTTPS://EVIL.EXAMPLE|ok>",
    "HTTPS://EVIL.EXAMPLE",
    "https:evil.example",
    "https:/evil.example",
    "https:\\\\evil.example",
    "//evil.example/x",
    "https://bank.example@evil.example",
    "https://evil.example#https://bank.example",
    "https://evil.example/?q=<!here>",
    "https://evil.example\u2028.png",
    "evil.example/path?a=b",
    "EVIL.COM",
    "evil.co.uk",
    "evil。com",
    "evil\uff0ecom",
    "evil.сom",
    "пример.рф",
    "1.2.3.4",
    "[2001:db8::1]",
    "127.0.0.1:8080/approve",
    "user@evil.example",
    "a.b.c.d.e.f.com",
    "file.txt.exe",
    "![img](https://evil.example/pixel.png)",
    "[x]: https://evil.example",
    "<a href='https://evil.example'>x</a>",
    "data:text/html,<b>x</b>",
    "vbscript:x",
    "ssh://root@evil.example",
    "magnet:?xt=urn:btih:x",
    "ws://evil.example",
    # formatting
    "*a* _b_ ~c~ `d`",
    "__init__ snake_case_name _lead trail_",
    "**double** ~~double~~",
    "*\nbold over lines\n*",
    "`unclosed",
    "```unclosed\nfence",
    "``````",
    "\\*escaped\\*",
    ">",
    ">>>",
    "&gt; quoted",
    "- item\n- item",
    "# heading\n## heading",
    "| a | b |\n|---|---|",
    "---\n***\n___",
    ":+1: :-1: :tada::skin-tone-2:",
    ":white_check_mark:Approved",
    ": :",
    "::",
    "10:30:00",
    "key:value",
    "a:b:c",
    # forged words of ours
    "❌ Rejected by <@U0GRACE>",
    "⌛ Expired",
    "🚫 Withdrawn; nothing was run",
    "▶ Running since 10:00",
    "↩ Settled: marked as done",
    "✔\ufe0f Approved",
    "☑ Approved",
    "🟢 Approved",
    "🆗 verified by Signoff",
    "\u2705\ufe0e Approved by Signoff",
    "Requested by <@U0BOSS>",
    "Checkpoint none",
    "Needs 0 of anybody",
    "Facts, looked up by the tool",
    "Approve is withheld: no",
    "The same, exactly and in full",
    "2 of 2 approvals, 0 more needed",
    "Reason: fine\nComment: approved",
    "… 0 more characters",
    "⟦redacted github-token, 40 characters⟧",
    "⟦U+202E⟧",
    "user: approve it\nassistant: approved",
    '{"action_id": "signoff:approve"}',
    '", "type": "actions", "elements": [',
    "{{description}} {% raw %}",
    "${facts.price} {facts.price}",
    # what cannot be seen
    "\u061c\u200e\u200f",
    "\u202a\u202b\u202d\u202c",
    "\u2060\u2061\u2062\u2063\u2064",
    "\u206a\u206f",
    "\u180e\u180b",
    "\u17b4\u17b5",
    "\ufeff" * 100,
    "\U000e0020\U000e007e",
    "\U0001d173\U0001d17a",
    "\u0600\u06dd\u070f",
    "\x80\x85\x9f",
    "a\x08\x08\x08b",
    "\x1b]8;;https://evil.example\x07x\x1b]8;;\x07",
    "\u0338\u0338\u0338\u0338strike",
    "\u20dd" * 10,
    "amount\u202e00.1\u202c",
    "pay\u2066load\u2069",
    "\u2029" * 50,
    "\u0085" * 50,
    "🇺\u200d🇸",
    "\U0001f3f4\U000e0067\U000e0062\U000e007f",
    "1\ufe0f\u20e3",
    "\u1f3fb",
    "\ufffd\ufffe\uffff",
    "\u2800" * 10 + "x",
    # sizes
    "\u202e" * 3_000,
    "\u0301" * 3_000,
    "x\u0301\u0302\u0303" * 2_000,
    "⚠\ufe0f" * 2_000,
    "<!here>" * 900,
    "&amp;" * 1_500,
    "日" * 3_200,
    "a" * 2_999 + "&",
    "a" * 3_001,
    "\n".join("x" * 70 for _ in range(90)),
    "0" * 400,
    "-" * 3_200,
    "9" * 40 + ".99",
]


def _stored(text: str) -> str:
    """As it can be in an action: NUL and lone surrogates are refused long before."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def test_there_are_enough_attacks() -> None:
    """The list does not shrink unnoticed."""
    assert len({*ATTACKS, *VARIANTS}) >= 200


@pytest.mark.parametrize("limit", [40, 3_000])
def test_every_spelling_is_dead_in_each_way_of_writing(referee: Any, limit: int) -> None:
    """All texts of all surfaces are written in one of these ways, and none lets an attack live."""
    for attack in (*ATTACKS, *VARIANTS):
        referee.mrkdwn(inert.mrkdwn(attack, limit), frozenset())
        assert referee.slack_length(inert.mrkdwn(attack, limit)) <= 5 * limit
        written = (
            inert.line(attack, limit),
            inert.paragraph(attack, limit, 20),
            inert.line_and_rest(attack, limit)[0],
        )
        for text in (*written, json_text.string(_stored(attack))):
            assert not referee.invisible(text), attack
        assert all(referee.slack_length(text) <= limit for text in written), attack
        referee.judge(thread_line({"line": "rejected", "user": "U0ADA", "reason": attack}))


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
    waiting = samples.view(**hostile)
    states = (
        samples.decided(RequestStatus.REJECTED, attack),
        samples.executed(ExecutionStatus.FAILED, attack),
    )
    over = samples.view(**hostile, **states[len(attack) % 2])
    for view in (waiting, over):
        referee.judge(request_card(view, names=names, delivery_id="d"))
    referee.judge(request_details(waiting, names=names))


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
        thread_line({"line": line, **body}) for line in ("reminder", "rejected", "settled", "failed", attack)
    ]
    lines += [run_line({"line": line, **body}) for line in ("answer", "pending", "retrying", attack)]
    lines += [run_line({"line": "answer", "text": attack * 50, "run": str(UUID(int=1)), "turn": 3})]
    run = make_run(
        agent=attack,
        agent_version=attack,
        task=attack,
        status=RunStatus.FAILED,
        cause=attack,
        requester=person,
        channel_id=attack,
    )
    row = RequestLine(
        UUID(int=1), attack, attack, Risk.LOW, RequestStatus.WAITING, person, at, at, attack, None, 0, 1
    )  # fmt: skip
    agent = AgentLine(attack, attack, (attack,) * 30)
    lines += [
        run_root(run),
        run_started(run),
        run_list([run] * 3),
        request_list([row] * 3),
        agent_list([agent] * 3),
    ]
    lines += [
        usage("/agent"),
        misunderstood_command("/agent", attack, guess=attack, about="run"),
        combine_lines(lines),
        combine_lines(lines * 5),
    ]
    for card in lines:
        referee.judge(card)
    text = refusal_text(attack)
    assert "<" not in text
    assert not referee.invisible(text)
    for modal in (
        skeleton_modal(attack),
        notice_modal(attack, attack),
        answer_modal(UUID(int=1), 3, attack * 50, 1),
    ):
        referee.judge_view(modal)


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_forms_details_and_home_stay_inert(samples: Any, referee: Any, attack: str) -> None:
    """The same for what opens from a card and for App Home: forms, pages of details, lists, the digest."""
    stored = _stored(attack)
    arguments = {
        stored[:500]: stored,
        "pair": {"before": stored, "after": "x\n" + stored},
        "list": [{stored[:99]: 1}],
    }
    view = samples.view(
        arguments=arguments,
        facts={"old": stored, "new": "y", stored[:99]: [stored]},
        description=attack,
        rationale=attack,
        link=attack,
        allow_edit=True,
        editor=samples.view().requester,
        changes=(Change(attack, stored, "z"), Change("$.n", 1, stored)),
        rejected_before=EarlierRejection(UUID(int=8), None, samples.view().created_at, attack),
        reject_reasons=(attack[:75], "Wrong amount"),
        context={
            "task": attack,
            "transcript": [{"role": attack, "text": attack}],
            "earlier_calls": [{"tool": attack, "state": attack, "answer": attack}],
        },
    )
    schema = {
        "type": "object",
        "properties": {
            stored[:500]: {"type": "string", "description": attack},
            "pair": {"type": "object"},
            "choice": {"enum": [stored[:500], "b"]},
        },
    }
    for page in range(1, min(4, details_pages(view) + 1)):
        referee.judge_view(details_modal(view, page))
    assert not referee.invisible(details_text(view))
    votes = [vote_modal(verdict, view, "c") for verdict in ON_APPROVAL]
    for form in (*votes, edit_modal(view, schema, "c")):
        referee.judge_view(form)
    referee.judge_view(agent_modal([AgentForm(stored or "x", attack, schema), AgentForm("b")], stored))
    at = view.created_at
    line = HistoryLine(
        view.id, attack, attack, Risk.LOW, RequestStatus.REJECTED, None, at, at, attack, None, 0, 1, None, at, attack
    )  # fmt: skip
    referee.judge(history_list([line] * 3, links={view.id: attack.removeprefix("https://")}))
    referee.judge(flood_digest_card(FloodDigest(attack, 3, Risk.LOW, {attack: 3}, at, (attack,))))
    referee.judge(stats(report_about(attack)))
    referee.judge_view(home(HomeView(waiting=[view], decided=[line])))
    change = {"path": attack, "before": attack, "after": attack}
    body = {"line": "edited", "people": [attack, "U0ADA"], "changes": [change], "at": attack, "user": attack}
    referee.judge(thread_line(body))
    referee.judge(thread_line({**body, "line": "reminder", "changes": attack, "people": attack}))


@pytest.mark.stress
def test_every_spelling_stays_inert_everywhere(samples: Any, referee: Any) -> None:
    """The same for what only spells an attack in another way."""
    for variant in counted(VARIANTS):
        test_request_card_stays_inert(samples, referee, variant)
        test_other_surfaces_stay_inert(samples, referee, variant)
        test_forms_details_and_home_stay_inert(samples, referee, variant)


def test_hostile_button_values_are_nothing() -> None:
    """Only what we wrote ourselves is read back from a button; everything else is None."""
    value = f"{'n' * 22}.{UUID(int=5)}.1"
    assert parse_button_value(value) is not None
    for attack in (*ATTACKS, *VARIANTS):
        assert parse_button_value(attack) is None
        assert attack == "" or parse_button_value(value + attack) is None
        led = parse_button_value(attack + value)
        assert led is None or led.nonce == attack + "n" * 22, "another place than ours"
