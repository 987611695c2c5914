"""Several requests decided in one form in Slack: each in full, each by a vote of its own."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from agent.domain.answers import AnswerForm
from agent.domain.groups import Batch, gathered_in
from agent.store import groups, views
from agent.usecases import requests
from agent.usecases.requests import Edit
from signoff.values import Action
from slackbot.cards import page_value
from slackbot.cards.group_digest import GroupDigest, group_digest_card
from slackbot.cards.together_form import PAGE_OF_TOGETHER
from slackbot.cards.values import ACTION_DECIDE_TOGETHER, ACTION_LIST, ACTION_OPEN
from tests.integration import alone
from tests.integration.asking import (
    ADA,
    GRACE,
    LINUS,
    REVIEWS,
    Asked,
    ask,
    ballot,
    programs_question,
    question,
    reviewer,
    rule,
    start,
)
from tests.integration.listeners.conftest import House
from tests.integration.listeners.test_app_home import home

VERDICT = "signoff:verdict/signoff:verdict_input"
REASON = "signoff:reason/signoff:reason_input"
CHOICE = "signoff:choice/signoff:choice_input"


def tick(at: int) -> str:
    return f"signoff:row_{at}/signoff:tick"


def query(**wanted: str) -> str:
    return page_value(PAGE_OF_TOGETHER, **wanted)


async def several(house: House, count: int, terms: Any = None, **changes: Any) -> list[Asked]:
    """Refunds of orders 1, 2, …, whose amount is known from facts."""
    return [
        await ask(
            house.db,
            terms,
            description=f"Refund order {order}",
            facts={"price": 100 + order},
            **changes,
        )
        for order in range(1, count + 1)
    ]


async def opened(house: House, user: str, words: str = "Record") -> dict[str, Any]:
    """The form, from this person's App Home."""
    person = house.slack.person(user)
    person.open_home()
    view = await home(house, user, ACTION_DECIDE_TOGETHER)
    await person.click(view, ACTION_DECIDE_TOGETHER)
    return await house.modal(user, words)


async def statuses(house: House, asked: list[Asked]) -> list[str]:
    return [await house.status(each.request_id) for each in asked]


async def decided(house: House, user: str, form: dict[str, Any], values: dict[str, Any]) -> str:
    """What the form becomes."""
    sent = await house.slack.person(user).submit(form, {VERDICT: "approve"} | values)
    assert (sent.error, sent.errors) == (None, {})
    return str(house.slack.views(user)[-1]["blocks"])


async def test_one_form_decides_several(house: House) -> None:
    """App Home offers the form; what it shows in full and is ticked is decided, each by a vote that names the form."""
    asked = await several(house, 3)
    form = await opened(house, "U0GRACE")
    for order in (1, 2, 3):
        assert f"Refund order {order}" in str(form["blocks"])
        assert f"'{100 + order}'" in str(form["blocks"])
    said = await decided(house, "U0GRACE", form, {tick(1): []})
    assert "2 of 2 approved." in said
    assert await statuses(house, asked) == ["approved", "waiting", "approved"]
    cast = house.rows("SELECT path, together, count(*) FROM vote GROUP BY 1, 2")
    ((path, form_id, votes_cast),) = cast
    assert (path, votes_cast) == ("slack_together", 2)
    told = house.rows("SELECT detail ->> 'together' FROM audit_event WHERE event = 'vote.cast'")
    assert told == [(str(form_id),)] * 2


async def test_a_form_with_nothing_chosen_decides_nothing(house: House) -> None:
    """Without a verdict, or without a tick, the form says so and nothing is recorded."""
    asked = await several(house, 2)
    form, grace = await opened(house, "U0GRACE"), house.slack.person("U0GRACE")
    assert (await grace.submit(form, {})).errors
    assert (await grace.submit(form, {VERDICT: "approve", tick(0): [], tick(1): []})).errors
    assert await statuses(house, asked) == ["waiting", "waiting"]
    assert house.rows("SELECT id FROM vote") == []


async def test_each_vote_stands_under_its_own_rules(house: House) -> None:
    """Who may not approve one of them is told of that one; the others count, and a quorum needs its other votes."""
    asked = await several(house, 3)
    two = await ask(house.db, rule(approvals_required=2), description="Refund order 9")
    own = await ask(house.db, requester=GRACE, description="Refund order 8")
    form = await opened(house, "U0GRACE")
    assert "Refund order 8" not in str(form["blocks"])
    await alone.vote(house.db, ballot(asked[1], reviewer(LINUS), "reject"))
    said = await decided(house, "U0GRACE", form, {})
    assert "2 approved, 1 counted, 1 more needed; the others stay as they are" in said
    assert "Refund order 2" in said
    assert "rejected" in said
    found = await statuses(house, [*asked, two, own])
    assert found == ["approved", "rejected", "approved", "waiting", "waiting"]


async def test_what_changed_meanwhile_stays_open(house: House) -> None:
    """A request that was edited since the form opened is named and not decided; the others are."""
    asked = await several(house, 3, rule(allow_edit=True, editor_may_approve=True))
    form = await opened(house, "U0GRACE")
    house.owner.execute(
        "UPDATE approval_request SET expires_at = now() WHERE id = %s", (asked[0].request_id,)
    )
    action = Action("process_refund", "1", {"order_id": 9})
    await requests.edit(
        house.db, Edit(asked[2].request_id, 1, reviewer(LINUS), action, {"price": 9}, None, "slack_edit")
    )
    said = await decided(house, "U0GRACE", form, {})
    assert "1 of 3 approved" in said
    assert "It has changed since this form was opened" in said
    assert await statuses(house, asked[1:]) == ["approved", "waiting"]
    open_ones = [each for each in house.slack.views("U0GRACE")[-1]["blocks"] if each["type"] == "actions"]
    assert [each["elements"][0]["action_id"] for each in open_ones] == [ACTION_OPEN, ACTION_OPEN]


async def test_a_form_sent_twice_changes_nothing(house: House) -> None:
    """The same submission again, as Slack repeats one, casts no second vote and says the same."""
    asked = await several(house, 2)
    form = await opened(house, "U0GRACE")
    first = await decided(house, "U0GRACE", form, {})
    again = await house.slack.person("U0GRACE").submit(form, {VERDICT: "approve"}, drawn=form["hash"])
    assert again.error is None
    assert "2 of 2 approved." in first
    assert house.rows("SELECT count(*) FROM vote") == [(2,)]
    assert await statuses(house, asked) == ["approved", "approved"]


async def forged(house: House, user: str, form: dict[str, Any], carried: str) -> str:
    """What a form with these contents becomes, approved with all ticks and signed as Slack signs."""
    view = copy.deepcopy(form) | {"private_metadata": carried}
    chosen = {"type": "radio_buttons", "selected_option": {"value": "approve"}}
    view["state"]["values"]["signoff:verdict"] = {"signoff:verdict_input": chosen}
    payload = house.slack.interactions.submission(house.slack.person(user).member, view, [])
    report = await house.slack.deliveries.interactive(payload)
    return str(report.payload)


async def test_a_request_that_is_not_decided_together_is_named(house: House) -> None:
    """High risk, `decide_together = "never"`, a hidden value, or too much to show: not in the form, with the reason."""
    await several(house, 2)
    reasons = {
        "it has high risk": await ask(house.db, rule(risk="high")),
        "its checkpoint wants it decided on its own": await ask(house.db, rule(decide_together="never")),
        "it hides a value": await ask(house.db, rule(redact=("price",))),
        "it is too long for a row": await ask(house.db, facts={"note": "x" * 2000}),
        "it wants an answer": await ask(house.db, answer_form=AnswerForm.of({"enum": ["eu", "us"]})),
    }
    shown = str((await opened(house, "U0GRACE"))["blocks"])
    assert shown.count("'checkboxes'") == 2
    for reason in reasons:
        assert reason in shown


@pytest.mark.parametrize("terms", [{"risk": "high"}, {"decide_together": "never"}, {"redact": ("price",)}])
async def test_a_forged_form_decides_nothing_it_may_not_show(house: House, terms: dict[str, Any]) -> None:
    """A row that a form may not show is refused on record, even with a place and a digest of its own."""
    asked = await several(house, 2)
    other = await ask(house.db, rule(**terms))
    nonce = await requests.create_place(house.db, other.request_id, "modal", GRACE)
    form = await opened(house, "U0GRACE")
    head, rest, first, second = form["private_metadata"].split("\n")
    row = f"{nonce}.{other.request_id}.1 {second.split()[1]}"
    said = await forged(house, "U0GRACE", form, "\n".join([head, rest, first, row]))
    assert "1 of 2 approved" in said
    assert await statuses(house, [*asked, other]) == ["approved", "waiting", "waiting"]
    assert house.rows("SELECT detail ->> 'refusal' FROM audit_event WHERE event = 'vote.refused'") == [
        ("not_together",)
    ]


async def test_a_row_counts_for_its_reader_and_its_contents_alone(house: House) -> None:
    """Another person's place, or another digest than the form showed, decides nothing."""
    asked = await several(house, 3)
    theirs = await requests.create_place(house.db, asked[2].request_id, "modal", LINUS)
    form = await opened(house, "U0GRACE")
    head, rest, *rows = form["private_metadata"].split("\n")
    nonce, digest = rows[2].split(".")[0], rows[2].split()[1]
    rows[1] = rows[1].split()[0] + " " + rows[0].split()[1][:-4] + "AAA="
    rows[2] = rows[2].replace(nonce, theirs)
    assert digest
    said = await forged(house, "U0GRACE", form, "\n".join([head, rest, *rows]))
    assert "1 of 3 approved" in said
    assert await statuses(house, asked) == ["approved", "waiting", "waiting"]


async def test_the_next_ten_follow(house: House) -> None:
    """A form has at most ten; its outcome offers the next, until nothing is left."""
    asked = await several(house, 12)
    form = await opened(house, "U0GRACE")
    assert str(form["blocks"]).count("'checkboxes'") == 10
    await decided(house, "U0GRACE", form, {})
    done = house.slack.views("U0GRACE")[-1]
    await house.slack.person("U0GRACE").click(done, ACTION_DECIDE_TOGETHER)
    form = await house.modal("U0GRACE", "Record")
    assert str(form["blocks"]).count("'checkboxes'") == 2
    assert "2 of 2 approved" in await decided(house, "U0GRACE", form, {})
    assert set(await statuses(house, asked)) == {"approved"}


async def one_group(house: House, *, by_program: bool) -> str:
    """The name of a group of twelve whose deadlines come in another order than they were asked in."""
    terms = rule()
    gathered = gathered_in(Batch("b", 12), terms, None, 4)
    run_id, calls = await start(house.db, calls=12)
    orders = range(1, 13) if by_program else range(12, 0, -1)
    for order in orders:
        said = {"description": f"Refund order {order:02}", "facts": {"price": order}, "gathered_in": gathered}
        if by_program:
            new = programs_question(terms, client_id=f"r-{order}", **said)
        else:
            new = question(run_id, calls[order - 1], terms, order=order, **said)
        opened = await requests.open(house.db, new)
        late = "UPDATE approval_request SET expires_at = expires_at - %s * interval '1 minute' WHERE id = %s"
        house.owner.execute(late, (order, opened.request_id))
    async with house.db.transaction() as tx:
        name = await groups.form(tx, REVIEWS, str(gathered), group_from=4, cards_per_minute=10)
    assert name is not None
    return name


def orders_in(shown: object) -> list[int]:
    return list(dict.fromkeys(int(each) for each in re.findall(r"Refund order (\d\d)", str(shown))))


@pytest.mark.parametrize("by_program", [False, True], ids=["turn", "batch"])
async def test_a_group_comes_as_it_was_asked(http_house: House, by_program: bool) -> None:
    """Message, list and form have a turn's requests in the model's order, and a batch's in that of the program."""
    house, grace = http_house, http_house.slack.person("U0GRACE")
    name = await one_group(house, by_program=by_program)
    async with house.db.connection() as connection:
        group = await views.request_group(connection, name)
        first = await views.request_views(connection, group.first)
    digest = group_digest_card(GroupDigest(name, first, group.requests, group.waiting), notify=False)
    assert orders_in(digest.blocks) == list(range(1, 13))
    posted = await house.client.chat_postMessage(channel="C0REVIEW", text="A group", blocks=digest.blocks)
    message = next(each for each in house.slack.messages("C0REVIEW") if each["ts"] == posted["ts"])
    await grace.click(message, ACTION_LIST)
    listed = await house.modal("U0GRACE", "Waiting, of one group")
    assert orders_in(listed["blocks"]) == list(range(1, 11))
    await grace.click(message, ACTION_DECIDE_TOGETHER)
    form = await house.modal("U0GRACE", "Record")
    assert orders_in(form["blocks"]) == list(range(1, 11))
    await decided(house, "U0GRACE", form, {tick(0): []})
    await grace.click(house.slack.views("U0GRACE")[-1], ACTION_DECIDE_TOGETHER)
    assert orders_in((await house.modal("U0GRACE", "Record"))["blocks"]) == [11, 12]


async def test_one_reason_for_all(house: House) -> None:
    """A checkpoint that wants a reason gets it before anything is cast; one for rejecting does not approve."""
    terms = rule(reason_required=("reject",), reject_reasons=("Duplicate",))
    asked = await several(house, 2, terms)
    form, grace = await opened(house, "U0GRACE"), house.slack.person("U0GRACE")
    assert (await grace.submit(form, {VERDICT: "reject"})).errors
    assert (await grace.submit(form, {VERDICT: "approve", CHOICE: "Duplicate"})).errors
    assert house.rows("SELECT id FROM vote") == []
    said = await decided(
        house, "U0GRACE", form, {VERDICT: "reject", CHOICE: "Duplicate", REASON: "as order 1"}
    )
    assert "2 of 2 rejected." in said
    assert house.rows("SELECT DISTINCT reason FROM vote") == [("Duplicate: as order 1",)]
    assert await statuses(house, asked) == ["rejected", "rejected"]


async def test_strangers_get_no_form(house: House) -> None:
    """A guest who presses a forged button is refused, and a query that Signoff never made shows nothing."""
    asked, card = await house.asked()
    card = copy.deepcopy(card)
    row = next(block for block in card["blocks"] if block["type"] == "actions")
    button = row["elements"][0]
    button |= {"action_id": ACTION_DECIDE_TOGETHER, "value": query(after="nothing")}
    button.pop("style", None)
    for user in ("U0MALLORY", "U0GRACE"):
        await house.slack.person(user).click(card, ACTION_DECIDE_TOGETHER, stale=True)
        assert "checkboxes" not in str(await house.modal(user, "Decide together"))
    assert await statuses(house, [asked]) == ["waiting"]


async def _edited(house: House, asked: Asked) -> None:
    action = Action("process_refund", "1", {"order_id": 9})
    edit = Edit(asked.request_id, 1, reviewer(LINUS), action, {"price": 9}, None, "slack_edit")
    await requests.edit(house.db, edit)


async def _expired(house: House, asked: Asked) -> None:
    late = "UPDATE approval_request SET expires_at = created_at + interval '1 microsecond' WHERE id = %s"
    house.owner.execute(late, (asked.request_id,))


async def _withdrawn(house: House, asked: Asked) -> None:
    assert await requests.withdraw(house.db, asked.request_id, ADA, "Not needed")


async def _rejected(house: House, asked: Asked) -> None:
    await alone.vote(house.db, ballot(asked, reviewer(LINUS), "reject"))


async def _without_reviewer(house: House, asked: Asked) -> None:
    """Only this request is of the group that Grace leaves."""
    house.slack.workspace.usergroups["S0FINANCE"].users.remove("U0GRACE")
    house.ctx.directory.forget("S0FINANCE")


@pytest.mark.parametrize("happens", [_edited, _expired, _withdrawn, _rejected, _without_reviewer])
async def test_exactly_what_changed_stays_open(http_house: House, happens: Any) -> None:
    """Whatever happens to one request before the form is sent, the others are decided, and this one is named."""
    house, terms = (
        http_house,
        rule(approvers=("U0GRACE", "U0LINUS"), allow_edit=True, editor_may_approve=True),
    )
    asked = [
        *await several(house, 2, terms),
        await ask(
            house.db, terms.model_copy(update={"approvers": ("S0FINANCE",)}), description="Refund order 3"
        ),
        *await several(house, 1, terms),
    ]
    form = await opened(house, "U0GRACE")
    await happens(house, asked[2])
    said = await decided(house, "U0GRACE", form, {})
    assert "3 of 4 approved; the others stay as they are" in said
    assert str(asked[2].request_id) in said
    found = await statuses(house, asked)
    assert [*found[:2], found[3]] == ["approved"] * 3
    assert found[2] != "approved"
    voted = house.rows(
        "SELECT count(*) FROM vote WHERE request_id = %s AND user_id = 'U0GRACE'", asked[2].request_id
    )
    assert voted == [(0,)]
