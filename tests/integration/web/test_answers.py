"""Questions that want more than yes or no: asked and answered over the API, by the client and on the page."""

from __future__ import annotations

import asyncio
from datetime import date
from enum import StrEnum
from html import unescape
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from agent.domain.answer_schemas import PERSON
from agent.domain.answers import AnswerForm
from agent.domain.api_keys import Scope
from agent.store import views
from agent.usecases import api_keys
from signoff.client import ApprovalClient, AsyncApprovalClient, concluded
from signoff.errors import ApiError, CollaborationError, SignoffError
from signoff.values import Person
from slackbot.cards import ACTION_CHOOSE, ACTION_GIVE_ANSWER
from slackbot.cards.question_form import FIELD, INPUT
from tests.integration.asking import column
from tests.integration.service.conftest import http_house  # noqa: F401
from tests.integration.web.conftest import ADA, GRACE, LINUS, TEAM, Street, until
from tests.integration.web.visiting import Porch, porch  # noqa: F401

REGION = {"enum": ["eu", "us"]}


class Size(StrEnum):
    S = "small"
    L = "large"


class Strict(BaseModel):
    """Types are not converted, and the model refuses what its schema allows."""

    model_config = ConfigDict(strict=True)

    wanted: date

    @field_validator("wanted")
    @classmethod
    def _is_late(cls, given: date) -> date:
        if given.year < 2027:
            raise ValueError("is too early")
        return given


class Order(BaseModel):
    item: str = Field(max_length=40)
    count: int = Field(ge=1, le=10)
    size: Size = Size.S


async def asked(site: Street, answer: Any = REGION, **more: Any) -> Any:
    program = await site.program()
    return await program.ask(
        action_description="Which region?", action=None, arguments=None, answer=answer, **more
    )


async def test_a_program_asks_and_reads_the_answer(site: Street) -> None:
    """`POST /pending` with a schema opens a question; once answered, `GET` has its value, nothing can be claimed."""
    opened = await asked(site)
    assert opened.status_code == 201, opened.text
    found = opened.json()
    assert (found["status"], found["answer_schema"], found["answer"]) == ("waiting", REGION, None)
    reviewer = await site.reviewer()
    await reviewer.decides("r-1", "answered", answer="us")
    program = await site.program()
    found = (await program.get("/pending/r-1")).json()
    assert (found["status"], found["answer"], found["decided_by"]["user_id"]) == ("answered", "us", "U0GRACE")
    claimed = await program.post("/pending/r-1/claim", json={})
    assert claimed.status_code in (404, 409), claimed.text
    assert await column(site.db, "SELECT executor::text FROM tool_call") == ["none"]
    events = await site.events(f"request:{found['id']}")
    digest = next(detail["answer"] for _, event, detail in events if event == "request.decided")
    assert digest == await column_hex(site)


async def column_hex(site: Street) -> str:
    (digest,) = await column(site.db, "SELECT encode(digest, 'hex') FROM answer")
    return str(digest)


async def test_equal_answers_are_the_approvals_of_a_question(site: Street) -> None:
    """The API counts the most frequent answer as approvals, also where both are masked, and names who gave it."""
    await asked(site, answers_required=2)
    program, reading = await site.program(), await site.program("auditor", ["read"])
    tokens = [f"xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUv{end}" for end in ("Wx", "Yz")]
    for person, answer, alike in ((GRACE, tokens[0], 1), (LINUS, tokens[1], 1), (LINUS, tokens[0], 2)):
        reviewer = await site.reviewer(person, person.user_id)
        await reviewer.decides("r-1", "answered", answer=answer)
        assert (await program.get("/pending/r-1")).json()["approvals"] == alike
        (shown,) = (await reading.get("/pending")).json()["items"]
        assert (shown["approvals"], shown["approvals_required"]) == (alike, 2)
    found = (await program.get("/pending/r-1")).json()
    assert (found["status"], found["answer"]) == ("answered", tokens[0])
    assert [each["user_id"] for each in found["approved_by"]] == ["U0GRACE", "U0LINUS"]


@pytest.mark.parametrize("said", ["moon", "", None, 7, ["eu"], {"answer": "eu"}])
async def test_what_does_not_fit_is_refused(site: Street, said: Any) -> None:
    """An answer outside the schema is a 422 that names the field, and the question stays open."""
    await asked(site, other=False)
    reviewer = await site.reviewer()
    refused = await reviewer.decide("r-1", "answered", answer=said)
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (422, "unfit-answer"), (
        refused.text
    )
    assert await column(site.db, "SELECT status::text FROM approval_request") == ["waiting"]


async def test_a_question_is_not_approved_and_an_action_not_answered(site: Street) -> None:
    """The API refuses the verdict that the other kind of request takes."""
    await asked(site)
    program, reviewer = await site.program(), await site.reviewer()
    await program.ask("r-2")
    for name, decision in (("r-1", "approved"), ("r-2", "answered")):
        refused = await reviewer.decide(name, decision, answer="eu" if decision == "answered" else None)
        assert refused.status_code in (403, 409, 422), refused.text
        assert "does not take that verdict" in refused.text
    assert set(await column(site.db, "SELECT status::text FROM approval_request")) == {"waiting"}


@pytest.mark.parametrize("decision", ["approved", "rejected"])
async def test_an_answer_beside_another_decision_is_refused(site: Street, decision: str) -> None:
    """An answer that would be dropped is a 422, and nothing is decided."""
    await asked(site)
    refused = await (await site.reviewer()).decide("r-1", decision, answer="eu")
    assert refused.status_code == 422, refused.text
    assert "belongs to the decision" in refused.text
    assert await column(site.db, "SELECT status::text FROM approval_request") == ["waiting"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"answer": {"type": "object", "properties": {"a": {"type": "object"}}}},
            "a: object cannot be asked for",
        ),
        ({"answer": {"enum": []}}, "options are a list of texts"),
        ({"answer": {"enum": ["x" * 10_001]}}, "an option has at most 10,000 characters"),
        ({"answer": {"enum": ["caf\u00e9", "cafe\u0301"]}}, "an option stands twice"),
        ({"answers_required": 0}, "answers_required"),
        ({"answerers": ["@finance"]}, "'@finance' is none"),
        ({"answerers": ["requester"]}, "Slack does not confirm who that is"),
        ({"answerers": ["U0GRACE"], "answers_required": 2}, "2 equal answers are required, and 1 may answer"),
        ({"answerers": ["requester", "U0GRACE"], "answers_required": 2}, "and 1 may answer"),
    ],
)
async def test_an_unusable_question_asks_nobody(site: Street, more: dict[str, Any], why: str) -> None:
    """What people cannot be asked for is refused with a sentence before anybody is asked."""
    program = await site.program(owner=None)
    body = {"answer": REGION, **more}
    refused = await program.ask(action_description="Which?", action=None, arguments=None, **body)
    assert refused.status_code == 422, refused.text
    assert why in refused.text
    assert await column(site.db, "SELECT id FROM approval_request") == []


async def test_options_without_an_answer_are_refused(site: Street) -> None:
    """Fields about an answer mean nothing beside an action, so they are no part of one."""
    program = await site.program()
    assert (await program.ask(other=False)).status_code == 422
    assert (await program.ask(answer=REGION)).status_code == 422


async def pressed(site: Street, at: int) -> None:
    """Grace presses the option's button on the card, once it is there."""

    async def posted() -> list[Any]:
        return [each for each in site.house.slack.messages("C0REVIEW") if "Which region?" in each["text"]]

    cards: list[Any] = await until(posted)
    await site.house.slack.person("U0GRACE").click(cards[-1], ACTION_CHOOSE[at])


async def test_a_masked_option_is_pressed_by_its_number(site: Street) -> None:
    """An option that is a secret is masked on its button, and pressing that button answers with the option."""
    token = f"eyJhbGciOiJIUzI1NiJ9.{'eyJzdWIiOiIxMjM0NTY3ODkwIn0' * 3}.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV"
    assert (await asked(site, {"enum": [token, "none"]})).status_code == 201
    card = await site.house.card()
    assert token not in str(card)
    await pressed(site, 0)
    program = await site.program()
    assert (await program.get("/pending/r-1")).json()["answer"] == token


@pytest.mark.parametrize("rule", ["enum", "pattern"])
async def test_what_is_wrong_with_an_answer_is_said_masked(site: Street, rule: str) -> None:
    """Whoever answers reads the form masked, and so the sentences that refuse an answer, which quote it."""
    token = "xoxb-" + "123456789012-1234567890123-" + "AbCdEfGhIjKlMnOpQrStUvWx"
    field = {"type": "string", rule: [token] if rule == "enum" else token}
    await asked(site, {"type": "object", "properties": {"password": field}})
    refused = await (await site.reviewer()).decide("r-1", "answered", answer={"password": "x"})
    assert refused.status_code == 422
    assert refused.json()["problems"]["password"].startswith("This ")
    assert "redacted slack-token" in refused.text
    assert token not in refused.text


async def test_a_secret_field_hides_what_is_entered_and_not_what_is_asked(site: Street) -> None:
    """A field with a secret's name has its label and options in the form; what people enter is masked for others."""
    fields = {
        "old_password": {"type": "string", "title": "The old string"},
        "credential": {"enum": ["vault", "keyring"], "title": "Kept in"},
    }
    assert (await asked(site, {"type": "object", "properties": fields})).status_code == 201
    card, grace = await site.house.card(), site.house.slack.person("U0GRACE")
    await grace.click(card, ACTION_GIVE_ANSWER)
    form = site.house.slack.views("U0GRACE")[-1]
    for words in ("The old string", "Kept in", "vault", "keyring"):
        assert words in str(form), words
    given = {f"{FIELD}0/{INPUT}": "hunter2 hunter2", f"{FIELD}1/{INPUT}": "1"}
    assert (await grace.submit(form, given)).error is None
    program, reviewer = await site.program(), await site.reviewer()
    own, others = [(await each.get("/pending/r-1")).json()["answer"] for each in (program, reviewer)]
    assert own == {"old_password": "hunter2 hunter2", "credential": "keyring"}
    assert "hunter2" not in str(others)


async def test_the_client_waits_for_an_answer(site: Street) -> None:
    """`ask_for` returns the value that a person chose in Slack, and who; a rejection is an error as with `ask`."""
    secret = await api_keys.create(site.db, "crm", [Scope.REQUEST], by="test", owner=ADA)
    async with AsyncApprovalClient(site.url, secret) as client:
        answer, _ = await asyncio.gather(
            client.ask_for("Which region?", ["eu", "us"], key="region-1", timeout=30), pressed(site, 1)
        )
        assert (answer.value, answer.reviewer, answer.answered_by) == ("us", "U0GRACE", ("U0GRACE",))
        again = await client.ask_for("Which region?", ["eu", "us"], key="region-1")
        assert again == answer
        with pytest.raises(SignoffError, match="answered, not approved"):
            concluded(await client.get("region-1"))
        reviewer = await site.reviewer()
        waiting = asyncio.create_task(client.ask_for("What?", form=Order, key="order-1", timeout=30))
        await until(lambda: column(site.db, "SELECT id FROM approval_request WHERE client_id = 'order-1'"))
        await reviewer.decides("order-1", "rejected", reason="ask later")
        with pytest.raises(CollaborationError, match="ask later"):
            await waiting


async def test_the_client_gets_its_model(site: Street) -> None:
    """A form asked for as a pydantic model comes back as its instance, in the blocking client, too."""
    secret = await api_keys.create(site.db, "crm", [Scope.REQUEST], by="test", owner=ADA)
    reviewer = await site.reviewer()

    def ask() -> Any:
        with ApprovalClient(site.url, secret) as client:
            return client.ask_for("What do you need?", form=Order, key="order-1", timeout=30).value

    waiting = asyncio.create_task(asyncio.to_thread(ask))
    await until(lambda: column(site.db, "SELECT id FROM approval_request"))
    await reviewer.decides("order-1", "answered", answer={"item": "pens", "count": 3, "size": "large"})
    assert await waiting == Order(item="pens", count=3, size=Size.L)


async def test_the_clients_model_has_the_last_word(site: Street) -> None:
    """A strict model is read from JSON, and what its own validators refuse is an error of ours in the program."""
    secret = await api_keys.create(site.db, "crm", [Scope.REQUEST], by="test", owner=ADA)
    reviewer = await site.reviewer()
    async with AsyncApprovalClient(site.url, secret) as client:

        async def ask(wanted: str) -> Any:
            waiting = asyncio.create_task(client.ask_for("When?", form=Strict, key=wanted, timeout=30))
            sql = "SELECT id FROM approval_request WHERE client_id = :key"
            await until(lambda: column(site.db, sql, key=wanted))
            await reviewer.decides(wanted, "answered", answer={"wanted": wanted})
            return (await waiting).value

        assert await ask("2027-01-31") == Strict(wanted=date(2027, 1, 31))
        with pytest.raises(SignoffError, match=r"does not fit Strict .*wanted: is too early"):
            await ask("2026-01-31")


async def test_a_form_that_cannot_be_asked_is_an_error_in_the_program(site: Street) -> None:
    """The service's sentence reaches the program that asks for what people cannot be asked for."""
    secret = await api_keys.create(site.db, "crm", [Scope.REQUEST], by="test", owner=ADA)
    nested = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}}
    async with AsyncApprovalClient(site.url, secret) as client:
        with pytest.raises(ApiError, match="cannot be asked for"):
            await client.ask_for("What?", form=nested)
        with pytest.raises(ValueError, match="one of the two"):
            await client.ask_for("What?", answerers=["requester"])
        with pytest.raises(ValueError, match="which are a list"):
            await client.ask_for("What?", "eu")


ORDER = AnswerForm.of(Order.model_json_schema())


async def test_the_page_has_the_same_form(porch: Porch) -> None:  # noqa: F811
    """A question is answered on its page without scripts; what does not fit is marked, and what was typed stays."""
    request_id = await porch.asked(7, answer_form=ORDER)
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    assert "Answer …" in reader.words
    assert "/approve" not in reader.page
    await reader.open(f"/inbox/requests/{request_id}")
    for words in ("Item", "Count", "size (optional)", "small", "large", "It authorises nothing"):
        assert words in reader.words, words
    page = f"/inbox/requests/{request_id}/answer"
    wrong = await reader.send(page, {"revision": "1", "f0": "pens <b>", "f1": "70"})
    assert wrong.status_code == 422
    assert "This must be at most 10." in reader.words
    assert 'value="pens &lt;b&gt;"' in reader.page
    done = await reader.send(page, {"revision": "1", "f0": "pens <b>", "f1": "7", "f2": "1"})
    assert done.status_code == 303, done.text
    view = await porch.house.db.read(views.request_view, UUID(request_id))
    assert view is not None
    assert view.answer == {"item": "pens <b>", "count": 7, "size": "large"}
    await reader.open(f"/inbox/requests/{request_id}")
    for words in ("Answered by @grace", "pens <b>", "large", "answered on this page"):
        assert words in reader.words, words
    for path in ("/inbox", "/inbox/history", "/inbox/history.csv"):
        await reader.open(path)
        assert "item: pens <b>, count: 7, size: large" in unescape(reader.page), path


@pytest.mark.parametrize(
    "entered",
    [{"f0": "maybe"}, {"f0": ["yes", "no"]}, {"f1": "1_0"}, {"f1": ["1", "2"]}, {"f2": ["0", "1"]}],
    ids=str,
)
async def test_an_entry_of_another_kind_is_refused(porch: Porch, entered: Any) -> None:  # noqa: F811
    """What a field of the form cannot be is marked, and never read as something else or as left empty."""
    fields = {"gift": {"type": "boolean"}, "count": {"type": "integer"}, "size": {"enum": ["S", "L"]}}
    form = AnswerForm.of({"type": "object", "properties": fields})
    request_id = await porch.asked(7, answer_form=form)
    reader = await porch.visitor("U0GRACE")
    await reader.open(f"/inbox/requests/{request_id}")
    sent = await reader.send(f"/inbox/requests/{request_id}/answer", {"revision": "1", **entered})
    assert sent.status_code == 422
    assert "This must be" in reader.words
    assert await column(porch.house.db, "SELECT id FROM vote") == []


async def test_own_words_on_the_page(porch: Porch) -> None:  # noqa: F811
    """An option or own words, not both; the page says which is missing."""
    request_id = await porch.asked(7, answer_form=AnswerForm.of(REGION))
    reader = await porch.visitor("U0GRACE")
    await reader.open(f"/inbox/requests/{request_id}")
    page = f"/inbox/requests/{request_id}/answer"
    for form in ({}, {"f0": "0", "other": "the moon"}):
        assert (await reader.send(page, {"revision": "1", **form})).status_code == 422
    assert (await reader.send(page, {"revision": "1", "other": "the moon"})).status_code == 303
    view = await porch.house.db.read(views.request_view, UUID(request_id))
    assert view is not None
    assert view.answer == "the moon"


async def test_everything_may_be_ticked(porch: Porch) -> None:  # noqa: F811
    """The page takes the fullest form that can be asked for: ten lists of a hundred options, each ticked."""
    options = [f"option {number}" for number in range(100)]
    fields = {f"list {number}": {"type": "array", "items": {"enum": options}} for number in range(10)}
    form = AnswerForm.of({"type": "object", "properties": fields})
    request_id = await porch.asked(7, answer_form=form)
    reader = await porch.visitor("U0GRACE")
    await reader.open(f"/inbox/requests/{request_id}")
    ticked = {f"f{at}": [*map(str, range(100))] for at in range(10)}
    sent = await reader.send(f"/inbox/requests/{request_id}/answer", {"revision": "1", **ticked})
    assert sent.status_code == 303, sent.text
    view = await porch.house.db.read(views.request_view, UUID(request_id))
    assert view is not None
    assert view.answer == dict.fromkeys(fields, options)


async def test_the_page_counts_equal_answers(porch: Porch) -> None:  # noqa: F811
    """A waiting page says how many answers are alike so far, and what each person said."""
    form = AnswerForm.of(REGION, answers_required=2)
    request_id = await porch.asked(7, answer_form=form)
    reader = await porch.visitor("U0GRACE")
    await reader.open(f"/inbox/requests/{request_id}")
    assert "0 of 2 equal answers" in reader.words
    answer = f"/inbox/requests/{request_id}/answer"
    assert (await reader.send(answer, {"revision": "1", "f0": "0"})).status_code == 303
    for page in (f"/inbox/requests/{request_id}", "/inbox"):
        await reader.open(page)
        assert "1 of 2 equal answers" in reader.words, page


async def test_the_page_names_the_people_of_an_answer(porch: Porch) -> None:  # noqa: F811
    """A person whom the answer names is shown by name, and many options are one menu."""
    rooms = [f"Room {number}" for number in range(1, 13)]
    fields = {"owner": {"type": "string", "format": PERSON}, "room": {"enum": rooms}}
    form = AnswerForm.of({"type": "object", "properties": fields})
    request_id = await porch.asked(7, answer_form=form)
    reader = await porch.visitor("U0GRACE")
    await reader.open(f"/inbox/requests/{request_id}")
    assert '<select id="f1"' in reader.page
    answer = f"/inbox/requests/{request_id}/answer"
    assert (await reader.send(answer, {"revision": "1", "f0": "U0LINUS", "f1": "11"})).status_code == 303
    await reader.open(f"/inbox/requests/{request_id}")
    assert "owner @linus" in reader.words
    assert "room Room 12" in reader.words


async def test_erased_with_its_question(site: Street) -> None:
    """Who asked reads an answer with a secret as it was given; others read it masked."""
    await asked(site)
    reviewer = await site.reviewer(GRACE)
    token = "xoxb-" + "123456789012-1234567890123-" + "AbCdEfGhIjKlMnOpQrStUvWx"
    await reviewer.decides("r-1", "answered", answer=token)
    program = await site.program()
    assert (await program.get("/pending/r-1")).json()["answer"] == token
    (listed,) = (await program.get("/pending")).json()["items"]
    assert listed["answer"] == token
    other = await site.program("auditor", ["read"])
    (shown,) = (await other.get("/pending")).json()["items"]
    assert token not in str(shown)


HOSTILE = (
    "<!channel>",
    "<b>bold</b>",
    "שלום \u202eabc",
    "👩\u200d💻 & co",
    "x" * 9_000,
    "line\nline",
    "*it* `code`",
)


async def test_the_page_shows_hostile_options_whole(porch: Porch) -> None:  # noqa: F811
    """A hundred options of any length and script are there to their end, dead, and the one that was ticked counts."""
    some = [*HOSTILE, *(f"option {n}" for n in range(93))]
    properties = {
        "one": {"enum": some},
        "some": {"type": "array", "items": {"enum": some}},
        "<i>": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties, "required": ["one", "some"]}
    request_id = await porch.asked(7, answer_form=AnswerForm.of(schema))
    reader = await porch.visitor("U0GRACE")
    await reader.open(f"/inbox/requests/{request_id}")
    assert reader.page.count('class="tick"') == 200
    for words in ("<!channel>", "<b>bold</b>", "⟦U+202E⟧", "x" * 9_000, "option 92"):
        assert unescape(reader.page).count(words) >= 2, words[:20]
    assert "<b>bold" not in reader.page
    assert "\u202e" not in reader.page
    page = f"/inbox/requests/{request_id}/answer"
    for forged in ({"f0": "100", "f1": "0"}, {"f0": "-1", "f1": "0"}, {"f0": "²", "f1": "0"}, {"f1": "0"}):
        assert (await reader.send(page, {"revision": "1", **forged})).status_code == 422
    done = await reader.send(page, {"revision": "1", "f0": "2", "f1": ["4", "99"], "f2": "a\r\nb <script>"})
    assert done.status_code == 303, done.text
    view = await porch.house.db.read(views.request_view, UUID(request_id))
    assert view is not None
    assert view.answer == {"one": some[2], "some": [some[4], some[99]], "<i>": "a\nb <script>"}
    await reader.open(f"/inbox/requests/{request_id}")
    assert "<script>" not in reader.page.partition("<main")[2]
    assert "\u202e" not in reader.page


async def test_forged_calls_answer_nothing(site: Street) -> None:
    """By the API: a key that only asks, an owner without the right, a guest, another revision; nothing is decided."""
    opened = await asked(site, other=False, answerers=["reviewers"])
    assert opened.status_code == 201, opened.text
    asker, owner = await site.program(), await site.program("ada", ["decide"], ADA)
    guest = await site.program("guest", ["decide"], Person(TEAM, "U0MALLORY"))
    outsider = await site.program("outsider", ["decide"], Person("T0ELSEWHERE", "U0GRACE"))
    reader, nobody = await site.program("auditor", ["read"]), await site.client(None)
    for program in (asker, owner, guest, outsider, reader, nobody):
        refused = await program.decide("r-1", "answered", answer="eu")
        assert refused.status_code in (401, 403, 404), refused.text
    reviewer = await site.reviewer()
    for body in (
        {"revision": 2},
        {"revision": 0},
        {"person": "U0LINUS"},
        {"answer": "moon"},
        {"answer": ["eu"]},
    ):
        refused = await reviewer.decide("r-1", "answered", **({"answer": "eu"} | body))
        assert refused.status_code in (409, 422), refused.text
    assert await column(site.db, "SELECT status::text FROM approval_request") == ["waiting"]
    assert await column(site.db, "SELECT id FROM vote") == []
    site.house.slack.workspace.usergroups["S0FINANCE"].users.remove("U0LINUS")
    connected = site.service.slack.connection()
    assert connected is not None
    connected.directory.forget("S0FINANCE")  # as Slack's event about the group does
    removed = await site.program("linus", ["decide"], LINUS)
    assert (await removed.decide("r-1", "answered", answer="eu")).status_code == 403
    await reviewer.decides("r-1", "answered", answer="us")
    assert await column(site.db, "SELECT user_id FROM vote") == ["U0GRACE"]


@pytest.mark.parametrize(
    "said", ["NaN", "Infinity", "1e999", "1" + "0" * 400, "1" + "0" * 5_000, '"\\ud800"', '"a\\u0000b"']
)
async def test_hostile_json_is_refused(site: Street, said: str) -> None:
    """What no JSON value can be, or none that can be kept, is a 400 or 422 and never an error of the service."""
    await asked(
        site, answer={"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "string"}}}
    )
    reviewer = await site.reviewer()
    for value in (said, f'{{"a": {said}}}', f'{{"b": {said}}}', "[" * 500 + "]" * 500, f'{{"": {said}}}'):
        body = f'{{"decision": "answered", "answer": {value}}}'
        sent = await reviewer.post("/approve/r-1", content=body, headers={"Content-Type": "application/json"})
        assert sent.status_code in (400, 422), (value[:40], sent.text)
    assert await column(site.db, "SELECT status::text FROM approval_request") == ["waiting"]


async def test_forged_page_forms_answer_nothing(porch: Porch) -> None:  # noqa: F811
    """On the page: another kind of request, another revision, no token, a person without the right."""
    mine = AnswerForm.of(REGION, answerers=["requester"])
    theirs = await porch.asked(7, answer_form=AnswerForm.of(REGION, answerers=["reviewers"]))
    action, own = await porch.asked(8), await porch.asked(9, answer_form=mine)
    grace = await porch.visitor("U0GRACE")
    for request_id, path, form in (
        (action, "answer", {"f0": "0"}),
        (theirs, "approve", {"sure": "yes"}),
        (theirs, "answer", {"f0": "0", "revision": "2"}),
        (theirs, "answer", {"f0": "0", "token": "0" * 64}),
        (theirs, "answer", {"f0": "2"}),
        (own, "answer", {"f0": "0"}),
    ):
        await grace.open(f"/inbox/requests/{request_id}")
        sent = await grace.send(f"/inbox/requests/{request_id}/{path}", {"revision": "1"} | form)
        assert sent.status_code in (403, 404, 409, 422), (path, form, sent.status_code)
    ada = await porch.visitor("U0ADA")
    await ada.open(f"/inbox/requests/{theirs}")
    assert (
        await ada.send(f"/inbox/requests/{theirs}/answer", {"revision": "1", "f0": "0"})
    ).status_code == 409
    stranger = porch.stranger()
    assert (
        await stranger.send(f"/inbox/requests/{theirs}/answer", {"revision": "1", "f0": "0"})
    ).status_code != 200
    db = porch.house.db
    assert await column(db, "SELECT DISTINCT status::text FROM approval_request") == ["waiting"]
    assert await column(db, "SELECT id FROM vote") == []
    await ada.open(f"/inbox/requests/{own}")
    assert (await ada.send(f"/inbox/requests/{own}/answer", {"revision": "1", "f0": "1"})).status_code == 303
