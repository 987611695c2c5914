"""Several requests decided in one form of the inbox page, without scripts."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent.domain.request import Verdict
from agent.domain.verdicts import VERDICTS
from agent.store.outbox import Destination
from tests.integration.asking import column, rule, write
from tests.integration.service.conftest import http_house
from tests.integration.web.test_reports import bars
from tests.integration.web.visiting import TEAM, Porch, Visitor, porch

__all__ = ["http_house", "porch"]

_ROW = re.compile(r'name="row" value="([^"]+)"')
FORM = "/inbox/together"
_OF_FORM = re.compile(r'href="(/inbox/history\?together=[^"]+)"')


async def several(porch: Porch, count: int, terms: Any = None, **changes: Any) -> list[str]:
    return [
        await porch.asked(
            order, terms, description=f"Refund order {order}", facts={"price": 100 + order}, **changes
        )
        for order in range(1, count + 1)
    ]


async def opened(porch: Porch, *ids: str, user: str = "U0GRACE") -> tuple[Visitor, list[str]]:
    """The form with these requests ticked in the list, and what each row claims."""
    reader = await porch.visitor(user)
    await reader.open(FORM, params={"id": list(ids)})
    return reader, [unescape(each) for each in _ROW.findall(reader.page)]


async def statuses(porch: Porch) -> list[str]:
    return await column(porch.house.db, "SELECT status::text FROM approval_request ORDER BY created_at, id")


async def test_ticked_rows_are_decided_in_one_form(porch: Porch) -> None:
    """The list has a tick for each of a kind; the form shows them in full, and sending it casts a vote on each."""
    ids = await several(porch, 3)
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    assert reader.page.count('form="together"') == 3
    reader, rows = await opened(porch, *ids[:2])
    assert len(rows) == 2
    for order in (1, 2):
        assert f"Refund order {order}" in reader.words
        assert f"{100 + order}" in reader.words
    assert "Refund order 3" not in reader.words
    sent = await reader.send(FORM, {"row": rows, "verdict": "approve", "own": "Fine"})
    assert sent.status_code == 200
    assert "2 of 2 approved." in reader.words
    assert await statuses(porch) == ["approved", "approved", "waiting"]
    cast = await column(
        porch.house.db, "SELECT path || ' ' || (together IS NOT NULL) || ' ' || reason FROM vote"
    )
    assert cast == ["page_together true Fine"] * 2


async def test_without_a_choice_the_first_of_a_kind(porch: Porch) -> None:
    """The button alone opens the first ten of a kind; the outcome leads to the next, until none is left."""
    await several(porch, 12)
    reader, rows = await opened(porch)
    assert len(rows) == 10
    following = re.search(r'name="next" value="([^"]+)"', reader.page)
    assert following
    await reader.send(FORM, {"row": rows, "verdict": "reject", "next": unescape(following[1])})
    assert "10 of 10 rejected." in reader.words
    led = re.search(r'id="next" rel="next" href="([^"]+)"', reader.page)
    assert led
    await reader.open(unescape(led[1]))
    assert len(_ROW.findall(reader.page)) == 2


async def test_what_a_form_may_not_show_is_named(porch: Porch) -> None:
    """High risk and what hides a value are named with the reason, with no tick anywhere."""
    ids = await several(porch, 2)
    high = await porch.asked(8, rule(risk="high"), description="Refund order 8")
    hidden = await porch.asked(9, rule(redact=("price",)), description="Refund order 9")
    reader, rows = await opened(porch, *ids, high, hidden)
    assert len(rows) == 2
    assert "Refund order 8 : it has high risk" in reader.words
    assert "Refund order 9 : it hides a value" in reader.words
    await reader.open("/inbox")
    assert reader.page.count('form="together"') == 2


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"verdict": "approve"}, "Tick at least one request."),
        ({"row": "ticked"}, "Choose what you decide."),
        ({"row": "ticked", "verdict": "maybe"}, "Choose what you decide."),
        ({"row": "garbage", "verdict": "approve"}, "Tick at least one request."),
        ({"row": "ticked", "verdict": "approve", "choice": "Duplicate"}, "reason for rejecting"),
        ({"row": "ticked", "verdict": "reject"}, "Choose a reason or write your own"),
    ],
)
async def test_an_incomplete_form_decides_nothing(porch: Porch, form: dict[str, Any], said: str) -> None:
    """What is missing is said in the form, which keeps what was entered; nothing is recorded."""
    ids = await several(porch, 2, rule(reason_required=("reject",), reject_reasons=("Duplicate",)))
    reader, rows = await opened(porch, *ids)
    given = {"id": ids, **form} | ({"row": rows} if form.get("row") == "ticked" else {})
    answer = await reader.send(FORM, given)
    assert answer.status_code == 422
    assert said in reader.words
    assert await statuses(porch) == ["waiting", "waiting"]


async def test_forged_rows_decide_nothing(porch: Porch) -> None:
    """Another person's place, another digest, a high risk or a repeated row: each stays open or is refused."""
    ids = await several(porch, 4)
    high = await porch.asked(8, rule(risk="high"), description="Refund order 8")
    _, of_linus = await opened(porch, *ids, user="U0LINUS")
    reader, rows = await opened(porch, *ids)
    other = f"{rows[1].split(' ')[0]} {rows[0].split(' ')[1]}"
    risky = rows[3].replace(ids[3], high)
    answer = await reader.send(FORM, {"row": [rows[0], other, of_linus[2], risky], "verdict": "approve"})
    assert answer.status_code == 200
    assert "1 of 4 approved" in reader.words
    assert await statuses(porch) == ["approved", "waiting", "waiting", "waiting", "waiting"]
    await reader.send(FORM, {"row": [rows[1], f"{rows[1]} "], "verdict": "approve"})
    assert await statuses(porch) == ["approved", "waiting", "waiting", "waiting", "waiting"]


async def test_strangers_and_foreign_forms(porch: Porch) -> None:
    """A form without the page's token, or of somebody who may not see the requests, shows and records nothing."""
    ids = await several(porch, 2)
    reader, rows = await opened(porch, *ids)
    reader.page = ""
    assert (await reader.send(FORM, {"row": rows, "verdict": "approve"})).status_code == 403
    outsider = porch.stranger()
    assert (await outsider.open(FORM, params={"id": ids})).status_code in (303, 307)
    assert await statuses(porch) == ["waiting", "waiting"]


async def test_what_changed_meanwhile_is_named(porch: Porch) -> None:
    """A request that expired since the form opened is named with its page; sending the form again changes nothing."""
    ids = await several(porch, 3)
    reader, rows = await opened(porch, *ids)
    await write(
        porch.house.db,
        "UPDATE approval_request SET expires_at = created_at + interval '1 ms' WHERE id = :id",
        id=ids[1],
    )
    page = reader.page
    await reader.send(FORM, {"row": rows, "verdict": "approve"})
    assert "2 of 3 approved" in reader.words
    assert "Refund order 2 :" in reader.words
    reader.page = page
    await reader.send(FORM, {"row": rows, "verdict": "approve"})
    assert await column(porch.house.db, "SELECT count(*) FROM vote") == [2]


async def test_a_forged_row_tells_nothing_of_what_one_may_not_see(porch: Porch) -> None:
    """The outcome names no request that its reader may not see, whatever the form claims."""
    ids = await several(porch, 2)
    secret = await porch.asked(
        8,
        rule(approvers=("U0LINUS",), risk="high"),
        destination=Destination(TEAM, "C0ELSEWHERE"),
        description="Fire the director",
    )
    reader, rows = await opened(porch, *ids)
    await reader.send(FORM, {"row": [rows[0], rows[1].replace(ids[1], secret)], "verdict": "approve"})
    assert "1 of 2 approved" in reader.words
    assert "director" not in reader.page


async def test_all_that_is_ticked_follows(porch: Porch) -> None:
    """Of twelve ticked requests the first ten are in the form, and *Next* leads to the other two, and to no others."""
    ids = await several(porch, 14)
    reader, rows = await opened(porch, *ids[:12])
    assert len(rows) == 10
    following = re.search(r'name="next" value="([^"]+)"', reader.page)
    assert following
    await reader.open(f"{FORM}?{unescape(following[1])}")
    assert len(_ROW.findall(reader.page)) == 2
    assert "Refund order 12" in reader.words
    assert "Refund order 13" not in reader.words


async def test_what_follows_outlasts_a_mistake(porch: Porch) -> None:
    """A form that was sent incomplete still leads to the next requests."""
    await several(porch, 12)
    reader, rows = await opened(porch)
    following = re.search(r'name="next" value="([^"]+)"', reader.page)
    assert following
    await reader.send(FORM, {"row": rows, "next": unescape(following[1]), "id": [row[:36] for row in rows]})
    assert "Choose what you decide." in reader.words
    assert following[0] in reader.page


async def test_without_a_choice_a_narrowed_list_stays_narrow(porch: Porch) -> None:
    """The button of a filtered list opens the form for what that list shows, not for what the filter hides."""
    await several(porch, 2)
    other = rule(checkpoint_id="chargebacks")
    for order in (3, 4):
        await porch.asked(order, other, description=f"Chargeback {order}", facts={"price": order})
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    assert 'name="among"' not in reader.page
    await reader.open("/inbox?rule=chargebacks")
    among = re.findall(r'name="among" value="([^"]+)"', reader.page)
    await reader.open(FORM, params={"among": among})
    assert len(_ROW.findall(reader.page)) == 2
    assert "Chargeback 3" in reader.words
    assert "Refund order" not in reader.words


async def test_a_reason_that_is_required_is_asked_for(porch: Porch) -> None:
    """The form says beforehand which decision wants a reason, and how many approvals there are."""
    ids = await several(porch, 2, rule(reason_required=("reject",), approvals_required=2))
    reader, _ = await opened(porch, *ids)
    assert "optional" not in reader.words
    assert "0 of 2 approvals" in reader.words
    assert VERDICTS[Verdict.REJECT].reason_missing in reader.words


async def test_the_record_says_what_came_together(porch: Porch) -> None:
    """Timeline, history, its file and its filter name the form; a vote on a card has none."""
    ids = await several(porch, 3)
    reader, rows = await opened(porch, *ids[:2])
    await reader.send(FORM, {"row": rows, "verdict": "approve"})
    await reader.open(f"/inbox/requests/{ids[2]}")
    await reader.send(f"/inbox/requests/{ids[2]}/approve", {"revision": "1"})
    await reader.open(f"/inbox/requests/{ids[0]}")
    link = _OF_FORM.search(reader.page)
    assert link
    assert "on the page, in one form with 1 other" in reader.words
    await reader.open("/inbox/history")
    assert _OF_FORM.findall(reader.page) == [link[1]] * 2
    assert reader.words.count("in one form with 1 other") == 2
    await reader.open(unescape(link[1]))
    assert [order for order in (1, 2, 3) if f"Refund order {order}" in reader.words] == [1, 2]
    (form,) = await column(
        porch.house.db, "SELECT DISTINCT together::text FROM vote WHERE together IS NOT NULL"
    )
    assert form in link[1]
    told = (await reader.open("/inbox/history.csv")).text
    assert told.count(form) == 2
    await reader.open("/inbox/history?together=nothing")
    assert "There is no form “nothing”." in reader.words
    lines = await column(
        porch.house.db, "SELECT body ->> 'together' FROM delivery WHERE kind = 'thread_line'"
    )
    assert sorted(map(str, lines)) == ["1", "1", "None"]


async def send(porch: Porch, user: str, form: UUID, verdict: str, *ids: str) -> Visitor:
    """Open a form for these requests and send it under this id."""
    reader, rows = await opened(porch, *ids, user=user)
    await reader.send(FORM, {"row": rows, "verdict": verdict, "form": str(form)})
    return reader


async def test_a_form_is_one_persons(porch: Porch) -> None:
    """The id of a form is what its sender claims: timeline, history and filter count one person's votes of it."""
    ids, form = await several(porch, 3), uuid4()
    two = await porch.asked(4, rule(approvals_required=2), description="Refund order 4", facts={"price": 1})
    single = await porch.asked(5, description="Refund order 5", facts={"price": 1})
    await send(porch, "U0GRACE", form, "approve", *ids[:2], two)
    reader = await send(porch, "U0LINUS", form, "reject", ids[2], two)
    await send(porch, "U0LINUS", uuid4(), "reject", single)
    await reader.open(f"/inbox/requests/{two}")
    assert "on the page, in one form with 2 others" in reader.words
    assert "on the page, in one form with 1 other " in reader.words
    links = {unescape(each)[-7:]: unescape(each) for each in _OF_FORM.findall(reader.page)}
    for user, orders in (("U0GRACE", [1, 2, 4]), ("U0LINUS", [3, 4])):
        await reader.open(links[user])
        assert [order for order in range(1, 6) if f"Refund order {order}" in reader.words] == orders
    await reader.open("/inbox/history")
    assert reader.words.count("in one form with 2 others") == 2
    assert reader.words.count("in one form with 1 other ") == 2
    await reader.open(f"/inbox/requests/{single}")
    assert "on the page" in reader.words
    assert "in one form" not in reader.words


async def test_the_filter_by_form_shows_that_it_is_on(porch: Porch) -> None:
    """The history says whose form it shows, *Show* keeps that, and a link leads out, with the other filters."""
    ids, form = await several(porch, 3), uuid4()
    reader = await send(porch, "U0GRACE", form, "approve", *ids[:2])
    await send(porch, "U0GRACE", uuid4(), "approve", ids[2])
    await reader.open(f"/inbox/history?together={form}&voter=U0GRACE&risk=medium")
    assert "Only requests on which @grace voted in one form." in reader.words
    kept = dict(re.findall(r'<input type="hidden" name="(together|voter)" value="([^"]*)">', reader.page))
    assert kept == {"together": str(form), "voter": "U0GRACE"}
    out = re.search(r'id="any-form" href="([^"]+)"', reader.page)
    assert out
    assert unescape(out[1]) == "/inbox/history?risk=medium"
    await reader.open(f"/inbox/history?together={form}")
    assert f"Only requests with a vote of the form {form}." in reader.words
    assert "Refund order 3" not in reader.words
    await reader.open(unescape(out[1]))
    assert "Refund order 3" in reader.words
    assert 'name="together"' not in reader.page


async def test_the_reports_show_what_came_together(porch: Porch) -> None:
    """The page compares decisions together and alone in words beside each bar; a form shows all, as Details do."""
    *ids, single = await several(porch, 4)
    reader, rows = await opened(porch, *ids)
    await reader.send(FORM, {"row": rows, "verdict": "reject"})
    await reader.open(f"/inbox/requests/{single}")
    await reader.send(f"/inbox/requests/{single}/approve", {"revision": "1"})
    await reader.open("/inbox/reports?days=7")
    assert "3 of 4 (75 %) were decided in one form with others." in reader.words
    together, alone = bars(reader.page, "Decisions together and alone")
    assert (together[0], alone[0]) == ("Together", "Alone")
    assert re.fullmatch(r"3 of 4 \(75 %\); median \d+ s", together[1])
    assert re.fullmatch(r"1 of 4 \(25 %\); median \d+ s", alone[1])
    assert bars(reader.page, "Votes without opening Details")[0][1] == "0 of 4 (0 %)"
