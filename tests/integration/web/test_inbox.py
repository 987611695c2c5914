"""The inbox page: who sees what, and what can be done there."""

from __future__ import annotations

import asyncio
import csv
import re
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import pairwise
from os.path import commonprefix
from time import monotonic
from typing import Any
from urllib.parse import quote
from uuid import UUID

import httpx
import pytest

from agent.domain.api_keys import Scope
from agent.domain.request import ExecutionStatus
from agent.domain.verdicts import OUTCOMES
from agent.store.outbox import Destination
from agent.store.views import request_view
from agent.usecases import api_keys, runs, search
from agent.usecases import policy as policies
from agent.usecases.calls import Outcome
from signoff.values import Action, Person
from slackbot.cards import request_card
from slackbot.masking import views
from slackbot.masking.search_words import words_of_request
from slackbot.masking.secret_finder import everything
from slackbot.web.inbox import assets, history_file
from tests.integration import alone, asking
from tests.integration.service.conftest import DELETIONS, House, http_house, until  # noqa: F401
from tests.integration.test_settling import IN_DOUBT
from tests.integration.web.conftest import Program
from tests.integration.web.visiting import ADA, GRACE, LINUS, TEAM, Porch, Visitor, open_porch, porch  # noqa: F401
from tests.patience import promised
from tests.statement_counter import counting


def section(page: str, name: str) -> str:
    """The part of a page that a heading of this id names."""
    found = re.search(rf'<section aria-labelledby="{name}".*?</section>', page, re.DOTALL)
    return found[0] if found else ""


async def test_what_waits_for_the_reader_comes_first(porch: Porch) -> None:  # noqa: F811
    """A reviewer's own work is in the first list, others' decisions in the second, outcomes in the third."""
    mine = await porch.asked(7)
    await porch.asked(8, asking.rule(approvers=("U0LINUS",)))
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    assert "order 7" in section(reader.page, "for-you")
    assert f"/inbox/requests/{mine}" in section(reader.page, "for-you")
    assert "order 8" not in section(reader.page, "for-you")
    assert "order 8" in section(reader.page, "for-others")
    assert "order 7" not in section(reader.page, "for-others")
    for words in ("Waiting", "Medium risk", "0 of 1 approval", "in 23 h", "@finance may decide", "by @ada"):
        assert words in reader.words, words


_CONTROL = re.compile(r"<(button|a|summary)\b([^>]*)>(.*?)</\1>", re.DOTALL)


def read_aloud(page: str) -> dict[str, list[str]]:
    """What is read of each control, by what it shows."""
    found: dict[str, list[str]] = {}
    for _, attributes, content in _CONTROL.findall(page):
        shown = re.sub(r"<[^>]+>", "", content).strip()
        label = re.search(r'aria-label="([^"]*)"', attributes)
        found.setdefault(shown, []).append(label[1] if label else shown)
    return found


async def test_repeated_controls_are_told_apart(porch: Porch) -> None:  # noqa: F811
    """Whatever control stands more than once on a page is read with what it is about: in lists, on a request's page
    and on a run's.
    """
    first = await porch.asked(7, asking.rule(allow_edit=True))
    await porch.asked(8)
    reader = await porch.visitor("U0GRACE")
    (run_id,) = await porch.house.column(
        "SELECT run_id FROM approval_request WHERE id = CAST(:id AS uuid)", id=first
    )
    await reader.open("/inbox")
    assert read_aloud(reader.page)["Approve"] == [
        "Approve: Refund 1500 for order 7",
        "Approve: Refund 1500 for order 8",
    ]
    for path in (
        "/inbox",
        f"/inbox/requests/{first}",
        f"/inbox/runs/{run_id}",
        "/inbox/grants",
        "/inbox/history",
    ):
        await reader.open(path)
        for shown, spoken in read_aloud(reader.page).items():
            assert len(set(spoken)) == len(spoken), (path, shown, spoken)
            assert all(each.startswith(shown) for each in spoken), (path, shown, spoken)


async def test_a_list_shows_what_its_reader_may_see(porch: Porch) -> None:  # noqa: F811
    """Requests of a channel that the reader is not in, and that they may not decide, are in no list of theirs."""
    workspace = porch.house.slack.workspace
    workspace.add_channel("C0SECRET", "secret", ["U0LINUS", workspace.bot.user_id])
    await porch.asked(
        9,
        asking.rule(approvers=("U0LINUS",)),
        destination=Destination(TEAM, "C0SECRET"),
        requester=LINUS,
    )
    await search.store_words(porch.house.db, words_of_request)
    grace, linus = await porch.visitor("U0GRACE"), await porch.visitor("U0LINUS")
    for path in ("/inbox", "/inbox/history?status=waiting", "/inbox/history?status=waiting&q=order"):
        await grace.open(path)
        assert "order 9" not in grace.page
        await linus.open(path)
        assert "order 9" in linus.page


async def test_looking_for_an_id_does_not_tell_that_there_is_one(porch: Porch) -> None:  # noqa: F811
    """The beginning of an id leads to its request only for those who may see it."""
    workspace = porch.house.slack.workspace
    workspace.add_channel("C0SECRET", "secret", ["U0LINUS", workspace.bot.user_id])
    hidden = await porch.asked(
        9, asking.rule(approvers=("U0LINUS",)), destination=Destination(TEAM, "C0SECRET"), requester=LINUS
    )
    grace, linus = await porch.visitor("U0GRACE"), await porch.visitor("U0LINUS")
    found = await linus.open(f"/inbox/history?q={hidden[:13]}")
    assert found.headers["location"] == f"/inbox/requests/{hidden}"
    assert (await grace.open(f"/inbox/history?q={hidden[:13]}")).status_code == 200
    assert hidden not in grace.page
    assert await table(grace, f"?q={hidden}") == []
    assert [row["id"] for row in await table(linus, f"?q={hidden}")] == [hidden]


async def test_page_and_card_say_why_an_approved_call_never_ran(porch: Porch) -> None:  # noqa: F811
    """Its run was cancelled before it began, or the approval was too old by then: both say so, and that nothing ran.
    The lists of the page use the same words.
    """
    db, reader = porch.house.db, await porch.visitor("U0GRACE")
    stopped, outdated = await porch.asked(1), await porch.asked(2)
    for asked in (stopped, outdated):
        await reader.open(f"/inbox/requests/{asked}")
        assert (await reader.send(f"/inbox/requests/{asked}/approve", {"revision": "1"})).status_code == 303
    of_run = "SELECT run_id FROM approval_request WHERE id = CAST(:id AS uuid)"
    (run_id,) = await porch.house.column(of_run, id=stopped)
    await runs.cancel_by_operator(db, run_id, "test", "no longer wanted")
    late = (
        "UPDATE approval_request SET voided_at = decided_at + interval '1 year' WHERE id = CAST(:id AS uuid)"
    )
    await asking.write(db, late, id=outdated)
    for asked, status, on_page, on_card in (
        (
            stopped,
            "Approved, not run: ",
            "It was stopped before it began, so nothing was run.",
            "It was stopped before it began, so nothing was run.",
        ),
        (
            outdated,
            "Approval void: ",
            "too old when the call could begin, so it is void, nothing was run, and people were asked again.",
            "it was too old when the call could begin, so nothing was run, and people were asked again.",
        ),
    ):
        await reader.open(f"/inbox/requests/{asked}")
        assert on_page in reader.words
        assert f"{reader.badges[0]}: " == status
        assert "not begun" not in reader.words
        view = await db.read(request_view, UUID(asked))
        assert view is not None
        card = request_card(view)
        assert card.text.startswith(status)
        assert on_card in str(card.blocks)
        assert "Not started yet" not in str(card.blocks)
    for path in ("/inbox", "/inbox/history"):
        await reader.open(path)
        assert reader.badges == ["Approval void", "Approved, not run"]


async def test_a_run_hides_what_its_checkpoints_hide(porch: Porch) -> None:  # noqa: F811
    """What `redact` hides is read neither on the run's page nor in the lists of runs, nor over HTTP."""
    await porch.asked(48151623, asking.rule(redact=("order_id",)), description="Refund it")
    (run_id,) = await asking.write(
        porch.house.db,
        "UPDATE agent_run SET task = 'refund 48151623', progress = 'is 48151623 right?' RETURNING id::text",
    )
    reader = await porch.visitor("U0GRACE")
    for path in ("/inbox/runs", f"/inbox/runs/{run_id}", f"/inbox/runs/{run_id}/now"):
        assert (await reader.open(path)).status_code == 200
        assert "refund" in reader.page
        assert "48151623" not in reader.page
    secret = await api_keys.create(porch.house.db, "watcher", [Scope.READ], by="test")
    program = porch.stranger().browser
    for path in ("/agents/waiting", f"/agents/{run_id}"):
        answer = await program.get(path, headers={"Authorization": f"Bearer {secret}"})
        assert answer.status_code == 200
        assert "refund" in answer.text
        assert "48151623" not in answer.text


async def test_assets_are_kept_by_browsers_and_htmx_is_ours_to_serve(porch: Porch) -> None:  # noqa: F811
    """Every script and style of a page is served, for good, under a name that has its hash; nothing comes from afar."""
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    found = re.findall(r'(?:src|href)="(/inbox/static/[^"]+)"', reader.page)
    assert len(found) == 4
    assert not re.search(r'(?:src|href)="(?:https?:)?//', reader.page)
    stranger: httpx.AsyncClient = porch.stranger().browser
    for path in found:
        answer = await stranger.get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert any("htmx" in path for path in found)
    assert (await stranger.get(found[0].replace(".", ".0", 1))).status_code == 404
    assert "htmx" in assets.assets()["htmx-2.0.10.min.js"].content.decode()[:200]


async def voted(porch: Porch) -> list[str]:  # noqa: F811
    return await porch.house.column("SELECT path FROM vote")


async def status(porch: Porch, request_id: str) -> str:  # noqa: F811
    (found,) = await porch.house.column(
        "SELECT status::text FROM approval_request WHERE id = CAST(:id AS uuid)", id=request_id
    )
    return str(found)


@pytest.mark.parametrize("go", ["approve", "reject"])
async def test_a_link_of_an_email_leads_to_a_form_and_decides_nothing(porch: Porch, go: str) -> None:  # noqa: F811
    """Through the sign-in to the page at Approve or Reject; however often it is opened, nobody has voted."""
    asked = await porch.asked()
    link = f"/inbox/requests/{asked}?go={go}"
    stranger = await porch.stranger().open(link)
    assert stranger.headers["location"] == f"/sign-in?next={quote(link, safe='')}"
    newcomer = porch.stranger()
    await newcomer.open(stranger.headers["location"])
    assert (await newcomer.send(await porch.link("U0GRACE"))).headers["location"] == link
    grace = await porch.visitor("U0GRACE")
    for _ in range(2):
        assert (await grace.open(link)).headers["location"] == f"/inbox/requests/{asked}#{go}"
    assert await porch.house.column("SELECT count(*) FROM vote") == [0]
    assert (await grace.open(f"/inbox/requests/{asked}?go=withdraw")).status_code == 200


async def test_approve_on_the_page(porch: Porch) -> None:  # noqa: F811
    """A reviewer's form decides, by the path `page`, and the page shows the outcome and the timeline."""
    asked = await porch.asked(7, asking.rule(money=("facts.price",)))
    reader = await porch.visitor("U0GRACE")
    await reader.open(f"/inbox/requests/{asked}")
    asks = ("Refund 1500 for order 7", "price 1,500.00", "order_id 7", "refund order 7", "Ada asks")
    for words in (*asks, "What would happen", "Expires in"):
        assert words in reader.words, words
    answer = await reader.send(f"/inbox/requests/{asked}/approve", {"revision": "1"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/inbox/requests/{asked}#next")
    assert await status(porch, asked) == "approved"
    assert await voted(porch) == ["page"]
    await reader.open(f"/inbox/requests/{asked}")
    assert "Approved by @grace" in reader.words
    assert "@grace (Grace Hopper) approved on this page" in reader.words
    assert "What was approved" in reader.words
    assert "/approve" not in reader.page
    assert "Expires" not in reader.words
    assert 'id="next" href="/inbox"' in reader.page


async def test_a_row_decides_and_the_list_says_so(porch: Porch) -> None:  # noqa: F811
    """Approve in a row decides by the path `page_row`, leads back to the list, and names what was approved."""
    asked, other = await porch.asked(7), await porch.asked(8)
    reader = await porch.visitor("U0GRACE")
    assert (await reader.open("/")).headers["location"] == "/inbox"
    await reader.open("/inbox")
    form = rf'action="(/inbox/requests/{asked}/approve)".*?name="revision" value="(\d+)".*?name="back" value="([^"]*)"'
    found = re.search(form, section(reader.page, "for-you"), re.DOTALL)
    assert found
    answer = await reader.send(found[1], {"revision": found[2], "back": found[3]})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/inbox?done={asked}")
    assert await voted(porch) == ["page_row"]
    assert await status(porch, asked) == "approved"
    await reader.open(answer.headers["location"])
    assert "Approved: Refund 1500 for order 7" in reader.words
    assert f"{other}/approve" in reader.page
    assert f"{asked}/approve" not in reader.page
    await reader.open(f"/inbox?done={other}")  # nobody has answered that one
    assert "Your vote is counted" not in reader.words
    stale = await reader.send(f"/inbox/requests/{other}/approve", {"revision": "7", "back": "//evil.example"})
    assert stale.status_code == 409
    answer = await reader.send(
        f"/inbox/requests/{other}/approve", {"revision": "1", "back": "//evil.example"}
    )
    assert answer.headers["location"] == f"/inbox?done={other}"


@pytest.mark.parametrize("terms", [{"risk": "high"}, {"reason_required": ("approve",)}])
async def test_a_row_leads_to_what_approving_takes(porch: Porch, terms: dict[str, Any]) -> None:  # noqa: F811
    """High risk, or a comment that policy demands: the row leads to the form, and a row's own form is not taken."""
    asked = await porch.asked(7, asking.rule(**terms))
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    row = section(reader.page, "for-you")
    assert f'href="/inbox/requests/{asked}#approve"' in row
    assert f"{asked}/reject" in row
    assert f"{asked}/approve" not in row
    answer = await reader.send(f"/inbox/requests/{asked}/approve", {"revision": "1", "back": "/inbox"})
    assert answer.status_code == 422
    assert await voted(porch) == []


async def test_a_row_rejects_in_one_press(porch: Porch) -> None:  # noqa: F811
    """Where no reason is required, Reject in a row decides at once, and the list that it was in says so."""
    asked = await porch.asked(7)
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    assert f'action="/inbox/requests/{asked}/reject"' in section(reader.page, "for-you")
    answer = await reader.send(f"/inbox/requests/{asked}/reject", {"revision": "1", "back": "/inbox"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/inbox?done={asked}")
    assert await voted(porch) == ["page_row"]
    assert await status(porch, asked) == "rejected"


async def test_the_list_goes_on_with_the_row_after_the_decided_one(porch: Porch) -> None:  # noqa: F811
    """A row's form names the row that follows, or for the last row the one before; a forged name leads nowhere."""
    first, second = [await porch.asked(order) for order in (7, 8)]
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    named = re.findall(r'name="then" value="([^"]+)"', reader.page)
    assert named == [second, second, first, first]
    form = {"revision": "1", "back": "/inbox"}
    answer = await reader.send(f"/inbox/requests/{first}/approve", form | {"then": second})
    assert answer.headers["location"] == f"/inbox?done={first}#row-{second}"
    answer = await reader.send(f"/inbox/requests/{second}/approve", form | {"then": "//evil.example"})
    assert answer.headers["location"] == f"/inbox?done={second}"


async def test_a_reason_is_asked_for_only_where_one_is_needed(porch: Porch) -> None:  # noqa: F811
    """Reject stands before its folded reasons where it needs none, and after them where it does; none is chosen."""
    reasons = {"reject_reasons": ("Wrong amount",)}
    free = await porch.asked(7, asking.rule(**reasons))
    bound = await porch.asked(8, asking.rule(reason_required=("reject",), **reasons))
    reader = await porch.visitor("U0GRACE")
    for request_id, before in ((free, True), (bound, False)):
        await reader.open(f"/inbox/requests/{request_id}")
        form = reader.page[reader.page.index('id="reject"') :]
        assert (form.index('class="no"') < form.index("Wrong amount")) is before
        assert ("Reject with reason" in form) is before
        assert "checked" not in form


async def test_a_row_leads_to_the_reason_that_is_required(porch: Porch) -> None:  # noqa: F811
    """Where a rejection needs a reason, the row leads to its field, and a row's own form is not taken."""
    asked = await porch.asked(7, asking.rule(reason_required=("reject",)))
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    row = section(reader.page, "for-you")
    assert f'href="/inbox/requests/{asked}#reject"' in row
    assert f"{asked}/reject" not in row
    answer = await reader.send(f"/inbox/requests/{asked}/reject", {"revision": "1", "back": "/inbox"})
    assert answer.status_code == 422
    assert await voted(porch) == []


@pytest.mark.parametrize(("description", "at_once"), [("é" * 200, True), ("é" * 201, False), (" ", False)])
async def test_a_row_approves_at_once_only_what_it_says_in_full(
    porch: Porch,  # noqa: F811
    description: str,
    at_once: bool,
) -> None:
    """A description that is cut in the row, or none, leads to the page, where all of it can be read."""
    asked = await porch.asked(7, description=description)
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    assert (f"{asked}/approve" in section(reader.page, "for-you")) is at_once
    assert (f"{asked}#approve" in section(reader.page, "for-you")) is not at_once
    await reader.open(f"/inbox/requests/{asked}")
    assert description.strip() in reader.words


async def test_what_cannot_be_read_has_no_approve_in_its_row(
    porch: Porch,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row whose action could not be looked through for secrets offers the way to Reject alone."""
    asked = await porch.asked(7)
    reader = await porch.visitor("U0GRACE")
    monkeypatch.setattr(views, "SecretFinder", lambda *_args, **_more: everything)
    await reader.open("/inbox")
    row = section(reader.page, "for-you")
    assert f"{asked}/reject" in row
    assert "Approve" not in row


async def test_a_row_is_read_whole_once_for_each_revision(porch: Porch) -> None:  # noqa: F811
    """A row's form depends on its revision only, so the list reads it again only after an edit."""
    asked = await porch.asked(7)
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    with counting() as again:
        await reader.open("/inbox")
    assert f"{asked}/approve" in section(reader.page, "for-you")
    assert [each for each in again.statements if _WHOLE in each] == []
    await asking.write(porch.house.db, _SECOND_REVISION)
    with counting() as edited:
        await reader.open("/inbox")
    assert len([each for each in edited.statements if _WHOLE in each]) == 1
    assert 'name="revision" value="2"' in section(reader.page, "for-you")


_WHOLE = "revision.action"
_SECOND_REVISION = """
WITH second AS (
    INSERT INTO request_revision
    SELECT (jsonb_populate_record(v, '{"n": 2, "editor_team_id": "T", "editor_user_id": "U", "changes": []}')).*
    FROM request_revision AS v RETURNING request_id
)
UPDATE approval_request SET revision = 2 RETURNING 1
"""


async def test_the_root_leads_to_the_inbox(porch: Porch) -> None:  # noqa: F811
    """The bare address of the service leads a reader who is signed in to the inbox."""
    reader = await porch.visitor("U0GRACE")
    answer = await reader.open("/", follow_redirects=True)
    assert (answer.status_code, answer.url.path) == (200, "/inbox")
    assert '<section aria-labelledby="for-you"' in reader.page


async def test_after_a_decision_the_next_one_is_a_link_away(porch: Porch) -> None:  # noqa: F811
    """The page of a request that the reader has answered leads to the next and counts what is left for them."""
    first, second, third = [await porch.asked(order) for order in (1, 2, 3)]
    reader = await porch.visitor("U0GRACE")
    for request_id, following, left in ((second, third, 2), (third, first, 1), (first, None, 0)):
        path = f"/inbox/requests/{request_id}"
        await reader.open(path)
        assert 'rel="next"' not in reader.page
        await reader.send(f"{path}/approve", {"revision": "1"})
        await reader.open(path)
        found = re.search(r'rel="next" href="/inbox/requests/([^"]+)"', reader.page)
        assert (found[1] if found else None) == following
        assert not following or f"Next ({left} left)" in reader.words


async def test_what_could_not_be_read_cannot_be_approved(
    porch: Porch,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While everything is masked because it was not scanned in time there is no Approve, nor is a forged form taken."""
    asked = await porch.asked(7)
    reader = await porch.visitor("U0GRACE")
    monkeypatch.setattr(views, "SecretFinder", lambda *_args, **_more: everything)
    await reader.open(f"/inbox/requests/{asked}")
    assert "Approve is withheld" in reader.words
    assert (
        await reader.send(f"/inbox/requests/{asked}/approve", {"revision": "1", "sure": "yes"})
    ).status_code == 409
    assert await voted(porch) == []
    assert (
        await reader.send(f"/inbox/requests/{asked}/reject", {"revision": "1", "own": "Unreadable"})
    ).status_code == 303


async def test_reject_with_a_reason_that_policy_wants(porch: Porch) -> None:  # noqa: F811
    """Without the reason that a checkpoint demands nothing is recorded; a choice and own words make one."""
    terms = asking.rule(reason_required=("reject",), reject_reasons=("Wrong amount",))
    asked = await porch.asked(7, terms)
    reader, path = await porch.visitor("U0GRACE"), f"/inbox/requests/{asked}"
    await reader.open(path)
    assert "Wrong amount" in reader.words
    assert (await reader.send(f"{path}/reject", {"revision": "1", "choice": "Forged"})).status_code == 422
    assert await voted(porch) == []
    form = {"revision": "1", "choice": "Wrong amount", "own": "It was 80.\r\nNot 1500."}
    assert (await reader.send(f"{path}/reject", form)).status_code == 303
    assert await porch.house.column("SELECT reason FROM decision") == ["Wrong amount: It was 80.\nNot 1500."]


async def test_high_risk_takes_a_second_deliberate_act(porch: Porch) -> None:  # noqa: F811
    """For high risk and above Approve alone is not taken, whatever the browser checked; typed words are kept."""
    asked = await porch.asked(7, asking.rule(risk="critical"))
    reader, path = await porch.visitor("U0GRACE"), f"/inbox/requests/{asked}"
    await reader.open(path)
    answer = await reader.send(f"{path}/approve", {"revision": "1", "comment": "seen <b>it</b>"})
    assert answer.status_code == 422
    assert "critical-risk action" in reader.words
    assert "seen &lt;b&gt;it&lt;/b&gt;" in reader.page
    assert await voted(porch) == []
    assert (await reader.send(f"{path}/approve", {"revision": "1", "sure": "yes"})).status_code == 303
    assert await status(porch, asked) == "approved"


async def test_who_may_not_decide_is_told_why_and_recorded(porch: Porch) -> None:  # noqa: F811
    """The requester and people without a part in the request see why there is no form, and a form sent anyway is
    refused.
    """
    asked = await porch.asked(7, asking.rule(approvers=("U0LINUS", "U0ADA", "U0EVE", "U0ZOE")))
    for user, why in (("U0EVE", "key_owner"), ("U0ZOE", "instructor")):
        porch.house.slack.workspace.add_member(user, user.lower())
        await asking.exclude(porch.house.db, asked, Person(TEAM, user), why)
    for user, words in (
        ("U0ADA", "You asked for this action yourself"),
        ("U0EVE", "You asked for this action yourself"),
        ("U0ZOE", "You told this agent what to do"),
        ("U0GRACE", "not among the reviewers"),
    ):
        reader, path = await porch.visitor(user), f"/inbox/requests/{asked}"
        await reader.open(path)
        assert words in reader.words
        assert "/approve" not in reader.page
        await reader.open("/inbox")
        answer = await reader.send(f"{path}/approve", {"revision": "1"})
        assert answer.status_code == 409
        assert words in reader.words
    assert await voted(porch) == []
    refused = await porch.house.column(
        "SELECT detail ->> 'path' FROM audit_event WHERE event = 'vote.refused' AND subject = :subject",
        subject=f"request:{asked}",
    )
    assert refused == ["page"] * 4


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("editor", "You edited this action"),
        ("adviser", "The agent could read a reason or note of yours"),
        ("earlier_editor", "You edited an earlier action"),
    ],
)
async def test_who_shaped_it_finds_every_form_but_approve(porch: Porch, why: str, words: str) -> None:  # noqa: F811
    """The page says why an editor or adviser may not approve, and offers to reject; it does not wait for them."""
    asked = await porch.asked(7)
    await asking.exclude(porch.house.db, asked, GRACE, why)
    reader, path = await porch.visitor("U0GRACE"), f"/inbox/requests/{asked}"
    await reader.open("/inbox")
    assert "order 7" not in section(reader.page, "for-you")
    assert "order 7" in section(reader.page, "for-others")
    await reader.open(path)
    assert words in reader.words
    assert (
        "someone else has to approve what this agent proposes next" not in reader.words
    )  # that is so already
    assert "/approve" not in reader.page
    assert (await reader.send(f"{path}/approve", {"revision": "1"})).status_code == 409
    assert await voted(porch) == []
    assert (await reader.send(f"{path}/reject", {"revision": "1", "own": "no"})).status_code == 303
    assert await status(porch, asked) == "rejected"


async def test_a_late_or_stale_answer_keeps_what_was_typed(porch: Porch) -> None:  # noqa: F811
    """After somebody else has decided, or another revision came, the sentence says so and the words are still there."""
    asked = await porch.asked(7)
    grace, linus = await porch.visitor("U0GRACE"), await porch.visitor("U0LINUS")
    path = f"/inbox/requests/{asked}"
    await grace.open(path)
    await linus.open(path)
    assert (await grace.send(f"{path}/reject", {"revision": "7", "own": "old"})).status_code == 409
    assert "has changed since" in grace.words
    assert (await linus.send(f"{path}/approve", {"revision": "1"})).status_code == 303
    answer = await grace.send(f"{path}/reject", {"revision": "1", "own": "my long explanation"})
    assert answer.status_code == 409
    assert "already approved" in grace.words
    assert "my long explanation" in grace.words


@pytest.mark.parametrize("verb", ["", "/now", "/approve", "/reject", "/edit", "/withdraw"])
async def test_what_may_not_be_seen_does_not_exist(porch: Porch, verb: str) -> None:  # noqa: F811
    """A request of a channel that the visitor is not in is answered like an id that nobody ever gave out."""
    workspace = porch.house.slack.workspace
    workspace.add_channel("C0SECRET", "secret", ["U0LINUS", workspace.bot.user_id])
    destination = Destination(TEAM, "C0SECRET")
    asked = await porch.asked(
        9, asking.rule(approvers=("U0LINUS",)), destination=destination, requester=LINUS
    )
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    pages = []
    for request_id in (asked, "01900000-0000-7000-8000-000000000000"):
        path = f"/inbox/requests/{request_id}{verb}"
        answer = await (reader.send(path, {"revision": "1"}) if verb in _POSTS else reader.open(path))
        assert answer.status_code == 404
        pages.append(answer.text)
        await reader.open("/inbox")
    assert pages[0] == pages[1]
    assert await status(porch, asked) == "waiting"


_POSTS = ("/approve", "/reject", "/edit", "/withdraw")


@pytest.mark.parametrize(
    ("asserted", "said"),
    [
        ("slack", "by @ada Agent"),
        ("schedule", "by @ada (on a schedule)"),
        ("key:crm", "by @ada (owner of the API key crm)"),
        ("key:crm for U0ADA", "by @ada (named by the API key crm; Slack has not confirmed it)"),
        ("on-behalf", "by @ada (named by an API client; Slack has not confirmed it)"),
    ],
)
async def test_the_page_says_how_the_requester_is_known(
    porch: Porch,  # noqa: F811
    asserted: str,
    said: str,
) -> None:
    """In the words of Details."""
    asked = await porch.asked(7, requester_asserted=asserted)
    grace = await porch.visitor("U0GRACE")
    await grace.open(f"/inbox/requests/{asked}")
    assert said in grace.words.replace("@ada (Ada Lovelace)", "@ada")


async def test_only_the_requester_withdraws(porch: Porch) -> None:  # noqa: F811
    """The requester takes their question back; a reviewer's forged form does not."""
    asked = await porch.asked(7)
    path = f"/inbox/requests/{asked}"
    grace, ada = await porch.visitor("U0GRACE"), await porch.visitor("U0ADA")
    await grace.open(path)
    assert (await grace.send(f"{path}/withdraw")).status_code == 404
    assert await status(porch, asked) == "waiting"
    await ada.open(path)
    assert (await ada.send(f"{path}/withdraw", {"why": "ordered twice"})).status_code == 303
    assert await status(porch, asked) == "cancelled"
    await ada.open(path)
    assert "ordered twice" in ada.words
    words = OUTCOMES["cancelled"]
    assert words.consequence in ada.words.partition(words.title)[2]


EDITS = (
    DELETIONS
    + """allow_edit = true
editor_may_approve = true
"""
)


async def test_edit_then_approve_runs_what_was_edited(http_house: House) -> None:  # noqa: F811
    """The form has the fields of Slack's; what is mistyped comes back marked, what is saved is what runs."""
    opened = await open_porch(http_house, policy=EDITS, SIGNOFF_ROLES="web,worker,scheduler")
    await http_house.ask("U0ADA", "please delete_records table_name=users count=50")
    (asked,) = await until(lambda: http_house.column("SELECT id::text FROM approval_request"))
    reader, path = await opened.visitor("U0GRACE"), f"/inbox/requests/{asked}"
    await reader.open(path)
    fields = re.findall(r'name="there" value="([^"]+)"', reader.page)
    assert len(fields) == 3
    typed = dict(zip(fields, ("users", "many", ""), strict=True))
    assert (await reader.send(f"{path}/edit", {"revision": "1", "there": fields, **typed})).status_code == 422
    assert "not a number" in reader.words
    assert 'value="many"' in reader.page
    typed[fields[1]] = "5"
    answer = await reader.send(f"{path}/edit", {"revision": "1", "there": fields, **typed})
    assert answer.status_code == 303, reader.words
    await reader.open(path)
    assert "Delete 5 records from “users”" in reader.words
    assert "Revision 2, edited by @grace" in reader.words
    assert "50 → 5" in reader.words
    judged = "SELECT json_build_array(revision, verdict, action IS NULL) FROM judgement ORDER BY id"
    assert await http_house.column(judged) == [[None, "ask", True], [2, "ask", True]]
    assert (await reader.send(f"{path}/approve", {"revision": "2"})).status_code == 303
    await http_house.shows("SELECT status::text FROM agent_run", "completed")
    (answer_of,) = await http_house.column("SELECT answer FROM tool_call")
    assert "Deleted 5 records" in answer_of
    await reader.open(path)
    assert "Done" in reader.words
    (run_id,) = await http_house.column("SELECT id::text FROM agent_run")
    await reader.open("/inbox/runs")
    assert run_id in reader.page
    await reader.open(f"/inbox/runs/{run_id}")
    for words in ("please delete_records", "delete_records", "Deleted 5 records", "its request"):
        assert words in reader.words, words


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)> \u202eevil \u200b{{7*7}} javascript:alert(1)"
TOKEN = "xoxb-" + "1234567890-1234567890-" + "abcdefghijklmnopqrstuvwx"


async def test_text_of_others_is_inert_and_secrets_are_masked(porch: Porch) -> None:  # noqa: F811
    """No text of an agent, a person or a program becomes part of the page's code, hides, or shows a token."""
    asked = await porch.asked(
        7,
        description=f"Refund {HOSTILE} {TOKEN}",
        action=Action(
            "process_refund", "1", {HOSTILE: HOSTILE, "token": TOKEN, "deep": [{HOSTILE: [TOKEN]}]}
        ),
        facts={"customer": HOSTILE, "note": TOKEN},
        rationale=f"{HOSTILE} {TOKEN}",
        context={
            "task": HOSTILE,
            "transcript": [HOSTILE, {"role": HOSTILE, "text": TOKEN}, 7],
            "earlier_calls": [{"tool": HOSTILE, "answer": TOKEN, "arguments": {"x": TOKEN}}, "odd"],
            "else": {HOSTILE: TOKEN},
        },
        agent="refunds",
    )
    reader = await porch.visitor("U0GRACE")
    for path in ("/inbox", f"/inbox/requests/{asked}", "/inbox/history?status=waiting", "/inbox/runs"):
        await reader.open(path)
        assert "<script>alert" not in reader.page
        assert "<img" not in reader.page
        assert "\u202e" not in reader.page
        assert "\u200b" not in reader.page
        assert TOKEN not in reader.page
        assert "{{7*7}}" in reader.page or "Refund" not in reader.page
    await reader.open(
        f"/inbox/history?q={quote(HOSTILE)}&agent={quote(HOSTILE)}&person=U0ADA&since=never&status=odd"
    )
    assert "<script>alert" not in reader.page
    assert "There is no status" in reader.words


async def test_history_is_filtered_and_turned(porch: Porch) -> None:  # noqa: F811
    """Status, agent, people, days, words and the beginning of an id narrow it; Next leads on, and Back returns."""
    reader = await porch.visitor("U0GRACE")
    for order in range(28):
        asked = await porch.asked(order)
        await reader.open(f"/inbox/requests/{asked}")
        verb = "approve" if order % 2 else "reject"
        assert (await reader.send(f"/inbox/requests/{asked}/{verb}", {"revision": "1"})).status_code == 303
    await search.store_words(porch.house.db, words_of_request)
    await reader.open("/inbox/history")
    assert "Since (UTC)" in reader.words
    now = datetime.now(UTC)
    today, yesterday = now.date(), (now - timedelta(days=1)).date()
    first = re.findall(r"for order (\d+)</a>", reader.page)
    assert first == [str(order) for order in range(27, 2, -1)]
    forward = re.search(r'rel="next" href="([^"]+)"', reader.page)
    assert forward
    await reader.open(forward[1].replace("&amp;", "&"))
    assert re.findall(r"for order (\d+)</a>", reader.page) == ["2", "1", "0"]
    back = re.search(r'rel="prev" href="([^"]+)"', reader.page)
    assert back
    await reader.open(back[1].replace("&amp;", "&"))
    assert re.findall(r"for order (\d+)</a>", reader.page) == first
    for query, expected in (
        ("status=approved&q=order+27", ["27"]),
        ("status=rejected&q=order+27", []),
        ("q=ada+order+27", ["27"]),
        ("q=AD+refunds+order+27", ["27"]),
        ("q=grace+order+27", ["27"]),
        ("q=linus+order+27", []),
        ("q=Lovelace+order+27", ["27"]),
        ("q=hopp+order+27", ["27"]),
        ("agent=refunds&q=order+26", ["26"]),
        ("agent=others", []),
        ("q=order+27&rule=refunds&requester=U0ADA&channel=C0REVIEW&risk=medium", ["27"]),
        ("rule=others", []),
        ("risk=low", []),
        ("requester=U0GRACE", []),
        ("person=U0GRACE&q=order+27", ["27"]),
        ("channel=C0AGENTS", []),
        ("due=1h", []),
        ("person=U0LINUS", []),
        ("since=2999-01-01", []),
        (f"until={today}&q=order+27", ["27"]),
        (f"until={yesterday}&q=order+27", []),
        (f"since={today}&until={today}&q=order+27", ["27"]),
        (f"until={today}T00:00:00Z&q=order+27", []),
        ("decider=U0GRACE&q=order+27", ["27"]),
        ("decider=U0ADA&q=order+27", []),
        ("person=U0ADA&q=order+27", ["27"]),
        ("person=U0ADA&decider=U0GRACE&q=order+27", ["27"]),
    ):
        await reader.open(f"/inbox/history?{query}")
        assert re.findall(r"for order (\d+)</a>", reader.page) == expected, query
    await reader.open("/inbox/history?until=9999-12-31")
    assert "is not a date" in reader.words
    await reader.open(f"/inbox/history?agent=refunds&until={today}")
    mine = re.search(r'href="([^"]+)">My decisions', reader.page)
    assert mine
    await reader.open(mine[1].replace("&amp;", "&"))
    assert len(re.findall(r"for order (\d+)</a>", reader.page)) == 25
    assert f"agent=refunds&amp;decider=U0GRACE&amp;until={today}&amp;at=" in reader.page  # of the next page
    assert "Everybody’s decisions" in reader.words
    ids = await porch.house.column("SELECT id::text FROM approval_request ORDER BY id")
    alike = max((commonprefix(pair) for pair in pairwise(ids)), key=len)  # noqa: RUF071 - characters
    await reader.open(f"/inbox/history?q={alike}")
    assert set(re.findall(r"for order (\d+)</a>", reader.page)) == {
        str(order) for order, each in enumerate(ids) if each.startswith(alike)
    }
    assert f"Several requests have an ID that begins with “{alike}”" in reader.words
    assert {row["id"] for row in await table(reader, f"?q={alike}")} == {
        each for each in ids if each.startswith(alike)
    }
    assert (await reader.open(f"/inbox/count/history?q={alike}")).text == str(
        sum(each.startswith(alike) for each in ids)
    )
    (asked,) = await porch.house.column("SELECT max(id::text) FROM approval_request")
    assert (await reader.open(f"/inbox/history?q={asked}")).headers["location"] == f"/inbox/requests/{asked}"
    assert [row["id"] for row in await table(reader, f"?q={asked}")] == [asked]
    assert (await reader.open(f"/inbox/count/history?q={asked}")).text == "1"
    linus = await porch.visitor("U0LINUS")  # others decided
    await linus.open("/inbox/history?q=Hopper+order+27")
    assert re.findall(r"for order (\d+)</a>", linus.page) == ["27"]
    await linus.open("/inbox/history?q=nothing")
    assert '<option value="U0GRACE">' in linus.page


async def table(reader: Visitor, query: str = "") -> list[dict[str, str]]:
    """The downloaded history."""
    answer = await reader.open(f"/inbox/history.csv{query}")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="history.csv"'
    assert answer.headers["cache-control"] == "no-store"
    return list(csv.DictReader(StringIO(answer.content.decode("utf-8-sig"), newline="")))


@pytest.mark.parametrize("at_once", [1, 200])
async def test_the_history_is_downloaded_as_a_table(
    porch: Porch,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    """All pages of the page's list, with its filters and its masks, and no cell that a spreadsheet calculates."""
    monkeypatch.setattr(history_file, "AT_ONCE", at_once)
    reader = await porch.visitor("U0GRACE")
    hidden = asking.rule(approvers=("U0LINUS",))
    await porch.asked(9, hidden, destination=Destination(TEAM, "C0OPS"), requester=None)
    formulas = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "1;=1"]
    for text in [*formulas, f"token {TOKEN}", "zwölf \u202e"]:
        asked = await porch.asked(description=text)
        await reader.open(f"/inbox/requests/{asked}")
        form = {"revision": "1", "own": "=cmd()"}
        assert (await reader.send(f"/inbox/requests/{asked}/reject", form)).status_code == 303
    waiting = await porch.asked(description="it waits")
    await reader.open("/inbox/history?status=rejected&risk=medium")
    link = re.search(r'href="(/inbox/history\.csv\?[^"]+)"', reader.page)
    assert link
    rows = await table(reader, link[1].replace("&amp;", "&").removeprefix("/inbox/history.csv"))
    assert len(rows) == len(formulas) + 2
    assert {row["status"] for row in rows} == {"Rejected"}
    assert {(row["requester_id"], row["decided_by_ids"], row["channel_id"]) for row in rows} == {
        ("U0ADA", "U0GRACE", "C0REVIEW")
    }
    assert {row["decided_by"] for row in rows} == {"'@grace"}
    cells = [cell for row in rows for cell in row.values()]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells), cells
    assert {row["reason"] for row in rows} == {"'=cmd()"}
    assert TOKEN not in str(rows)
    assert "\u202e" not in str(rows)
    assert "zwölf ⟦U+202E⟧" in [row["request"] for row in rows]
    every = await table(reader, "?status=any")
    assert len(every) == len(rows) + 1  # not the one of others
    assert {row["id"] for row in every} - {row["id"] for row in rows} == {waiting}
    wrong = await reader.open("/inbox/history.csv?since=never&agent=refunds")
    assert (wrong.status_code, wrong.headers["location"]) == (303, "/inbox/history?agent=refunds&since=never")
    assert (await porch.stranger().open("/inbox/history.csv")).status_code == 303


@pytest.mark.parametrize(
    ("outcome", "title"),
    [
        (None, "What runs"),
        (Outcome(ExecutionStatus.SUCCEEDED, "refunded"), "What ran"),
        (Outcome(ExecutionStatus.FAILED, "no such order"), "What ran"),
        (IN_DOUBT, "What may have run"),
    ],
    ids=["running", "succeeded", "failed", "in doubt"],
)
async def test_the_call_is_titled_by_what_became_of_it(
    porch: Porch,  # noqa: F811
    outcome: Outcome | None,
    title: str,
) -> None:
    """Above the arguments the page says whether they would run, were approved, run, ran, or may have run."""
    reader = await porch.visitor("U0GRACE")
    epoch = await policies.epoch_in_force(porch.house.db)
    path = f"/inbox/requests/{await porch.asked(1)}"

    async def shown() -> list[str]:
        await reader.open(path)
        return re.findall(r'<h2 id="content-title">([^<]*)</h2>', reader.page)

    assert await shown() == ["What would happen"]
    assert (await reader.send(f"{path}/approve", {"revision": "1"})).status_code == 303
    assert await shown() == ["What was approved"]
    [call_id] = await porch.house.column("SELECT call_id FROM approval_request")
    claim = await alone.claim(porch.house.db, call_id, worker="w", idempotent=False, policy_epoch=epoch)
    assert claim is not None
    if outcome is not None:
        await alone.report(porch.house.db, claim, outcome)
    assert await shown() == [title]


async def test_what_waits_comes_by_deadline(porch: Porch) -> None:  # noqa: F811
    """The inbox, the waiting part of the history, and *Next* begin with what ends first, whenever it was asked."""
    hours = {1: 3, 2: 1, 3: 4, 4: 2}
    asked = {
        order: await porch.asked(order, asking.rule(timeout=timedelta(hours=each)))
        for order, each in hours.items()
    }
    reader = await porch.visitor("U0GRACE")
    for path in ("/inbox", "/inbox/history?status=waiting"):
        await reader.open(path)
        assert re.findall(r"for order (\d+)</a>", reader.page) == ["2", "4", "1", "3"], path
    for order, following in ((2, 4), (3, 4), (4, 1), (1, None)):
        path = f"/inbox/requests/{asked[order]}"
        assert (await reader.send(f"{path}/approve", {"revision": "1"})).status_code == 303
        await reader.open(path)
        found = re.findall(r'rel="next" href="/inbox/requests/([^"]+)"', reader.page)
        assert found == ([asked[following]] if following else []), order


async def test_history_finds_what_is_in_doubt(porch: Porch) -> None:  # noqa: F811
    """Requests whose call waits to be settled have a filter of their own; others that were approved are not there."""
    reader = await porch.visitor("U0GRACE")
    epoch = await policies.epoch_in_force(porch.house.db)
    for order in (1, 2):
        asked = await porch.asked(order)
        await reader.open(f"/inbox/requests/{asked}")
        assert (await reader.send(f"/inbox/requests/{asked}/approve", {"revision": "1"})).status_code == 303
    (call_id,) = await porch.house.column("SELECT call_id FROM approval_request ORDER BY id LIMIT 1")
    claim = await alone.claim(porch.house.db, call_id, worker="w", idempotent=False, policy_epoch=epoch)
    assert claim is not None
    await alone.report(porch.house.db, claim, IN_DOUBT)
    await reader.open("/inbox/history?status=in_doubt")
    assert re.findall(r"for order (\d+)</a>", reader.page) == ["1"]
    assert 'value="in_doubt" selected' in reader.page


async def test_the_filters_of_the_history_are_folded_until_one_is_set(porch: Porch) -> None:  # noqa: F811
    """Filters and order are behind a summary, which is open once one of them is set; the words stand above it."""
    reader = await porch.visitor("U0GRACE")
    for query, unfolded in (
        ("", ""),
        ("?q=order", ""),
        ("?status=approved", " open"),
        ("?sort=oldest", " open"),
    ):
        await reader.open(f"/inbox/history{query}")
        above, folds, below = reader.page.partition('<details class="narrow unfolds"')
        assert folds, query
        assert (f"{unfolded}>" == below[: len(unfolded) + 1], 'name="q"' in above) == (True, True), query
        inside = below.partition("</details>")[0]
        assert {'name="status"', 'name="since"', 'name="sort"'} <= set(re.findall(r'name="\w+"', inside))


async def test_the_inbox_is_filtered_sorted_and_counted(porch: Porch) -> None:  # noqa: F811
    """Filters of the page narrow both lists and their counts; rows and refreshes keep filters, order and page."""
    await porch.asked(1, asking.rule(risk="low"))
    urgent = await porch.asked(2, asking.rule(risk="high", checkpoint_id="large"))
    await porch.asked(3, asking.rule(approvers=("U0LINUS",)))
    reader = await porch.visitor("U0GRACE")

    async def orders(query: str) -> tuple[list[str], list[str]]:
        await reader.open(f"/inbox?{query}")
        lists = [section(reader.page, name) for name in ("for-you", "for-others")]
        first, second = [re.findall(r"for order (\d+)</a>", each) for each in lists]
        counts = [re.findall(r'class="count">([^<]*)<', each) for each in lists]
        assert counts == [[str(len(first))] * bool(first), [str(len(second))] * bool(second)], query
        return first, second

    assert await orders("") == (["1", "2"], ["3"])
    assert await orders("sort=risk") == (["2", "1"], ["3"])
    assert await orders("sort=newest") == (["2", "1"], ["3"])
    assert await orders("risk=medium") == ([], ["3"])
    assert await orders("sort=risk&person=U0LINUS&status=rejected") == (
        ["2", "1"],
        ["3"],
    )  # of the history alone
    assert await orders("rule=large&sort=deadline") == (["2"], [])
    assert f'href="/inbox/requests/{urgent}#approve"' in reader.page
    assert 'hx-get="/inbox/waiting?rule=large&amp;sort=deadline"' in reader.page
    assert '<option value="large" selected>' in reader.page
    assert await orders("risk=odd&sort=odd") == (["1", "2"], ["3"])
    assert "There is no risk “odd”. There is no sort order “odd”. It was ignored." in reader.words
    assert await orders("sort=asked") == (["1", "2"], ["3"])
    assert "There is no sort order “asked”." in reader.words
    for odd in ("/inbox?at=" + "x" * 1001, "/inbox/history?at=" + "x" * 1001, "/inbox/count/odd"):
        assert (await reader.open(odd)).status_code == 404
        assert "This page does not exist" in reader.words
    assert await orders("q=%21%3F") == (["1", "2"], ["3"])
    assert "There is no word or number in “!?”. It was ignored." in reader.words
    await orders("risk=low")
    back = re.search(r'name="back" value="([^"]+)"', reader.page)
    assert back
    assert back[1] == "/inbox?risk=low"


async def test_lists_are_filtered_by_the_agents_of_programs(porch: Porch) -> None:  # noqa: F811
    """An agent that no process here runs, known only from a program's questions, is offered as a filter and filters."""
    secret = await api_keys.create(porch.house.db, "crm", [Scope.REQUEST], by="test", owner=ADA)
    address, key = f"http://127.0.0.1:{porch.service.port}", {"Authorization": f"Bearer {secret}"}
    async with Program(base_url=address, headers=key) as program:
        named = await program.ask("r-1", agent="claims")
        unnamed = await program.ask("r-2")
        assert (named.status_code, unnamed.status_code) == (201, 201)
    await porch.asked(7)
    reader = await porch.visitor("U0GRACE")
    for path in ("/inbox", "/inbox/history?status=waiting"):
        await reader.open(path)
        [form] = re.findall(r'<select id="agent".*?</select>', reader.page, re.DOTALL)
        assert re.findall(r'<option value="([^"]*)"', form) == ["", "claims", "crm", "refunds"], path
        for agent, answer in (("claims", named), ("crm", unnamed)):
            await reader.open(f"{path}{'&' if '?' in path else '?'}agent={agent}")
            assert set(re.findall(r"/inbox/requests/([0-9a-f-]{36})", reader.page)) == {answer.json()["id"]}


async def test_what_may_not_be_seen_is_not_counted_offered_or_found(porch: Porch) -> None:  # noqa: F811
    """Of requests that a reader may not see no number, agent, rule, person, channel or word comes through."""
    workspace = porch.house.slack.workspace
    workspace.add_channel("C0SECRET", "secret", ["U0LINUS", workspace.bot.user_id])
    await porch.asked(
        9,
        asking.rule(approvers=("U0LINUS",), checkpoint_id="hush"),
        agent="takeovers",
        destination=Destination(TEAM, "C0SECRET"),
        requester=LINUS,
    )
    await porch.asked(8, asking.rule(approvers=("U0LINUS",)))
    await search.store_words(porch.house.db, words_of_request)
    grace, linus = await porch.visitor("U0GRACE"), await porch.visitor("U0LINUS")
    for path in (
        "/inbox",
        "/inbox?agent=takeovers",
        "/inbox/history?status=waiting",
        "/inbox/history?status=any&sort=risk",
        "/inbox/history?q=order",
        "/inbox/history?q=takeovers",
        "/inbox/history?status=any&channel=C0SECRET",
    ):
        shown = "agent=takeovers" not in path and "takeovers" not in path and "C0SECRET" not in path
        await linus.open(path)
        assert "order 9" in linus.page, path
        await grace.open(path)
        assert "order 9" not in grace.page, path
        assert "hush" not in grace.page, path
        assert "#secret" not in grace.page, path
        assert "U0LINUS" not in re.sub(r'<select id="person".*?</select>', "", grace.page, flags=re.DOTALL), (
            path
        )
        assert re.findall(r'class="count">([^<]*)<', grace.page) == (
            ["1"] if shown else ["0"] * ("history" in path)
        )
        assert ("takeovers" in grace.page) is ("takeovers" in path), path
        assert ("takeovers" in linus.page) is True, path


async def test_an_open_page_hears_of_a_change_and_of_nothing_else(porch: Porch) -> None:  # noqa: F811
    """The stream signals that something changed, and not what; it ends with the session."""
    reader = await porch.visitor("U0GRACE")
    heard: list[str] = []
    async with asyncio.timeout(20), reader.browser.stream("GET", "/inbox/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()
        while "event: changed" not in heard:  # how things are now
            heard.append(await anext(lines))
        heard.clear()
        asked = await porch.asked(7)
        while "event: changed" not in heard:
            heard.append(await anext(lines))
        assert asked not in str(heard)
        other = await porch.visitor("U0LINUS")
        other.browser.cookies = reader.browser.cookies
        await other.open("/inbox")
        assert (await other.send("/sign-out")).status_code == 303
        await porch.asked(8)
        async for _ in lines:
            pass
    assert (await porch.stranger().open("/inbox/events")).status_code == 303


async def test_a_thousand_waiting_requests_are_one_quick_page(porch: Porch) -> None:  # noqa: F811
    """With a thousand requests waiting the inbox shows a page of them at once, and counts them exactly afterwards."""
    asked = await porch.asked(7)
    await porch.multiply(asked)
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    assert len(re.findall(r'class="row waiting"', section(reader.page, "for-you"))) == 25
    assert "200+" in reader.words
    exact = re.search(r'id="count-mine" hx-get="([^"]+)"', reader.page)
    assert exact
    await reader.open(exact[1])
    assert reader.page == "1,001"
    assert (await reader.open("/inbox/count/history?status=waiting")).text == "1,001"
    assert (await reader.open("/inbox/count/others")).text == "0"
    began = monotonic()
    await reader.open("/inbox")
    assert monotonic() - began < promised(1)
    forward = re.search(r'rel="next" href="([^"]+)"', reader.page)
    assert forward
    await reader.open(forward[1])
    assert len(re.findall(r'class="row waiting"', section(reader.page, "for-you"))) == 25
