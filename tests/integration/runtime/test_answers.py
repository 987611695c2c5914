"""Questions that want more than yes or no: who answers, what counts, and what the function gets."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from agent.domain.answers import AnswerForm
from agent.domain.checkpoints import load
from agent.domain.errors import Refusal, Refused
from agent.domain.people import Standing
from agent.domain.request import Ballot, RequestStatus, Verdict
from agent.domain.run import CallView, RunStatus
from agent.usecases import audit, requests
from agent.usecases.requests import VoteOutcome
from signoff import ask, function_agent, step, tool
from signoff.errors import UnusableForm
from signoff.values import Person
from tests.integration import alone
from tests.integration.runtime.conftest import ASKER, REVIEWER, TEAM, Stage

OTHER = Person(TEAM, "U0OTHER")
ROOT = Path(__file__).resolve().parents[3]


class Size(StrEnum):
    S = "small"
    L = "large"


class Order(BaseModel):
    """What to order."""

    item: str = Field(max_length=40, description="As the catalogue calls it")
    count: int = Field(ge=1, le=10)
    size: Size
    wanted: date | None = None
    colours: list[str] = Field(default=[], json_schema_extra={"items": {"enum": ["red", "blue"]}})
    gift: bool = False


@function_agent
async def region(task: str) -> str:
    answer = await ask("Which region?", options=["eu", "us"])
    return f"{answer.cause}: {answer.value} ({answer.reason})"


@function_agent
async def order(task: str) -> str:
    answer = await ask("What do you need?", form=Order)
    return repr(answer.value)


class Strict(BaseModel):
    """Types are not converted, and the model refuses what its schema allows."""

    model_config = ConfigDict(strict=True)

    password: str
    wanted: date

    @field_validator("password")
    @classmethod
    def _is_long(cls, given: str) -> str:
        if len(given) < 12:
            raise ValueError("is too short")
        return given


@function_agent
async def strict(task: str) -> str:
    answer = await ask("Which password?", form=Strict)
    return repr(answer.require().wanted)


async def answered(
    s: Stage, run_id: Any, value: object, *, by: Person = REVIEWER, **more: Any
) -> VoteOutcome:
    """Answer the run's only question, as the front end does. Raises Refused."""
    (call,) = [call for call in await s.calls(run_id) if call.request_id]
    return await answer_call(s, call, value, by=by, **more)


async def answer_call(
    s: Stage,
    call: CallView,
    value: object,
    *,
    by: Person = REVIEWER,
    verdict: Verdict = Verdict.ANSWER,
    reason: str | None = None,
) -> VoteOutcome:
    request = await s.request(call)
    assert request.answer_form is not None
    said = request.answer_form.read(value) if verdict is Verdict.ANSWER else None
    standing = Standing(by, frozenset({"channel", by.user_id}))
    others = {vote.person: Standing(vote.person, frozenset({"channel"})) for vote in request.votes}
    ballot = Ballot(request.id, 1, verdict, standing, {**others, by: standing}, "test", reason, answer=said)
    outcome = await alone.vote(s.db, ballot)
    await s.play()
    return outcome


async def the_request(s: Stage, run_id: Any) -> Any:
    (call,) = [call for call in await s.calls(run_id) if call.request_id]
    return await s.request(call)


async def test_a_choice_reaches_the_function(stage: Any) -> None:
    """The option that a person chose is the function's value; nothing was run, and nothing was approved."""
    s = await stage(region)
    run_id = await s.go("region", "x")
    request = await the_request(s, run_id)
    assert (request.description, request.is_question, request.approvals_required) == (
        "Which region?",
        True,
        1,
    )
    await answered(s, run_id, "us")
    assert (await s.run(run_id)).answer == "answered: us (None)"
    request = await the_request(s, run_id)
    assert (request.status, request.answer, request.execution) == (RequestStatus.ANSWERED, "us", None)
    assert await s.sql("SELECT FROM execution") == []
    assert await s.sql("SELECT own_words FROM answer") == [(False,)]


async def test_a_form_reaches_the_function_as_its_model(stage: Any) -> None:
    """What people filled in is read as the author's own type, in every replay."""
    s = await stage(order)
    run_id = await s.go("order", "x")
    given = {
        "item": "pens",
        "count": 3,
        "size": "large",
        "wanted": "2027-01-31",
        "colours": ["blue"],
        "gift": True,
    }
    await answered(s, run_id, given)
    assert (await s.run(run_id)).answer == repr(Order.model_validate(given))
    assert await s.sql("SELECT own_words FROM answer") == [(True,)]


async def test_a_models_own_validators_are_asked(stage: Any) -> None:
    """A strict model is read from JSON; what its validators refuse fails the run, which never shows what was given."""
    s = await stage(strict)
    run_id = await s.go("strict", "x")
    await answered(s, run_id, {"password": "long enough, really", "wanted": "2027-01-31"})
    assert (await s.run(run_id)).answer == "datetime.date(2027, 1, 31)"
    run_id = await s.go("strict", "y")
    await answered(s, run_id, {"password": "hunter2", "wanted": "2027-01-31"})
    run = await s.run(run_id)
    assert run.status is RunStatus.FAILED
    assert "the answer does not fit Strict: $.password: is too short" in str(run)
    assert "hunter2" not in str(run)


async def test_the_requester_may_answer(stage: Any) -> None:
    """Who asked is among those who may answer, and `prevent_self_review` is about approvals."""
    s = await stage(region)
    run_id = await s.go("region", "x")
    request = await the_request(s, run_id)
    assert ASKER.user_id in request.approvers
    assert request.excluded == ()
    await answered(s, run_id, "eu", by=ASKER)
    assert (await s.run(run_id)).answer == "answered: eu (None)"


async def test_dont_ask_this(stage: Any) -> None:
    """A question can be rejected; the function learns that, and has no value."""
    s = await stage(region)
    run_id = await s.go("region", "x")
    await answered(s, run_id, None, verdict=Verdict.REJECT)
    assert (await s.run(run_id)).answer == "rejected: None (None)"


async def test_it_takes_no_approval(stage: Any) -> None:
    """A question with options is never approved, by whatever door the vote comes."""
    s = await stage(region)
    run_id = await s.go("region", "x")
    with pytest.raises(Refused) as refused:
        await answered(s, run_id, None, verdict=Verdict.APPROVE)
    assert refused.value.code is Refusal.OTHER_VERDICT
    assert (await the_request(s, run_id)).status is RequestStatus.WAITING


async def test_what_does_not_fit_is_refused_by_the_use_case(stage: Any) -> None:
    """The stored form judges the answer in the deciding transaction, whatever the front end let through."""
    s = await stage(region)
    run_id = await s.go("region", "x")
    request = await the_request(s, run_id)
    forged = AnswerForm.of({"enum": ["moon"]}).read("moon")
    standing = Standing(REVIEWER, frozenset({"channel"}))
    for said in (forged, None):
        ballot = Ballot(request.id, 1, Verdict.ANSWER, standing, {REVIEWER: standing}, "test", answer=said)
        with pytest.raises(Refused) as refused:
            await alone.vote(s.db, ballot)
        assert refused.value.code is Refusal.UNFIT_ANSWER
    assert await s.sql("SELECT FROM answer") == []


async def test_two_equal_answers(stage: Any) -> None:
    """With `answers_required = 2` unequal answers keep it open and are shown; one who changes theirs may decide it."""

    @function_agent
    async def both(task: str) -> str:
        answer = await ask("Which region?", options=["eu", "us"], answers_required=2)
        return str(answer.value)

    s = await stage(both)
    run_id = await s.go("both", "x")
    outcome = await answered(s, run_id, "eu")
    assert (outcome.status, outcome.approvals, outcome.needed) == (RequestStatus.WAITING, 1, 1)
    outcome = await answered(s, run_id, "us", by=OTHER)
    assert (outcome.status, outcome.approvals, outcome.needed) == (RequestStatus.WAITING, 1, 1)
    request = await the_request(s, run_id)
    assert {vote.person: vote.answer for vote in request.votes} == {REVIEWER: "eu", OTHER: "us"}
    await answered(s, run_id, "us")
    request = await the_request(s, run_id)
    assert (request.status, request.answer) == (RequestStatus.ANSWERED, "us")
    assert set(request.approved_by) == {REVIEWER, OTHER}
    assert (await s.run(run_id)).answer == "us"
    events, problems = await audit.find_problems(s.db)
    assert (events > 0, problems) == (True, [])


async def test_only_the_requester(stage: Any) -> None:
    """`answerers` names who may: a reviewer who is not among them is refused."""

    @function_agent
    async def mine(task: str) -> str:
        return str((await ask("Which region?", options=["eu", "us"], answerers=["requester"])).value)

    s = await stage(mine)
    run_id = await s.go("mine", "x")
    with pytest.raises(Refused) as refused:
        await answered(s, run_id, "eu")
    assert refused.value.code is Refusal.NOT_A_REVIEWER
    await answered(s, run_id, "eu", by=ASKER)
    assert (await s.run(run_id)).answer == "eu"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"options": []}, "options are a list of texts"),
        ({"options": "eu"}, "options are a list of texts"),
        ({"form": "eu"}, "ask for an `enum` of texts, or for an object"),
        ({"options": ["a"], "form": {}}, "not with both"),
        ({"answerers": ["requester"]}, "`answerers` needs `options` or a `form`"),
        ({"answers_required": 1}, "`answers_required` needs `options` or a `form`"),
        ({"other": True, "risk": "high"}, "`other` needs `options` or a `form`"),
        ({"options": ["a", "a"]}, "an option stands twice"),
        ({"options": [str(n) for n in range(101)]}, "at most 100 options"),
        (
            {"form": {"type": "object", "properties": {"a": {"type": "object"}}}},
            "a: object cannot be asked for",
        ),
        ({"form": {"type": "object", "properties": {}}}, "the form has no fields"),
        ({"options": ["a"], "answerers": ["@finance"]}, "'@finance' is none"),
        ({"options": ["a"], "answers_required": 0}, "`answers_required` is a number"),
    ],
)
async def test_an_unusable_form_asks_nobody(stage: Any, asked: Mapping[str, Any], why: str) -> None:
    """What people cannot be asked for is an error in the author's function, before anybody is asked."""

    @function_agent
    async def asking(task: str) -> str:
        try:
            await ask("Which?", **asked)
        except UnusableForm as error:
            return str(error)
        return "asked"

    s = await stage(asking)
    run_id = await s.go("asking", "x")
    run = await s.run(run_id)
    assert (run.status, why in (run.answer or "")) == (RunStatus.COMPLETED, True), run.answer
    assert await s.sql("SELECT FROM approval_request") == []


async def test_own_words_count_and_a_choice_does_not(stage: Any) -> None:
    """Free text, also beside an option, makes its author an adviser of what the run proposes next."""

    @function_agent
    async def twice(task: str) -> str:
        await ask("Which region?", options=["eu", "us"])
        await ask("Really?")
        return "done"

    said: list[tuple[str, str | None, list[Person]]] = [
        ("eu", None, []),
        ("the moon", None, [REVIEWER]),
        ("eu", "because of the moon", [REVIEWER]),
    ]
    for value, reason, advisers in said:
        s = await stage(twice)
        run_id = await s.go("twice", f"{value} {reason}")
        await answered(s, run_id, value, reason=reason)
        (second,) = [call for call in await s.calls(run_id) if call.request_id and call.answer is None]
        excluded = (await s.request(second)).excluded
        assert [each.person for each in excluded if each.why.value == "adviser"] == advisers


async def test_the_questions_of_an_airflow_flow(stage: Any) -> None:
    """The example asks for an entry, one of three, several of three and an approval, and returns what people said."""
    release = runpy.run_path(str(ROOT / "examples" / "airflow_questions.py"))["release"]
    s = await stage(release)
    run_id = await s.go("release", "2.4")
    for said in ({"information": "It is out."}, "warm", {"channels": ["chat", "e-mail"]}):
        (call,) = [call for call in await s.calls(run_id) if call.answer is None]
        await answer_call(s, call, said, by=OTHER)  # who wrote the text may not approve what follows from it
    (call,) = [call for call in await s.calls(run_id) if call.answer is None]
    assert (await s.request(call)).description == "Publish “It is out.” by e-mail, chat?"
    await s.approve(call)
    assert (await s.run(run_id)).answer == "2.4: It is out. (warm), e-mail, chat"


REFUSED = """
[[checkpoint]]
checkpoint_id = "no-questions"
action_pattern = "ask"
when = "agent == 'region'"
verdict = "deny"
because = "Look it up."
"""
BOUNDED = """
[[limit]]
name = "questions"
action_pattern = "ask"
of = "count"
per = "agent"
within = "24h"
max = 1
then = "deny"
"""


@pytest.mark.parametrize(("policy", "answers"), [(REFUSED, ["denied"]), (BOUNDED, ["answered", "denied"])])
async def test_policy_refuses_questions_and_bounds_their_number(
    stage: Any, policy: str, answers: list[str]
) -> None:
    """A denying checkpoint for `ask` asks nobody, and a limit that denies lets so many questions through."""

    @function_agent(name="region")
    async def asking(task: str) -> str:
        return (await ask("Which region?", options=["eu", "us"])).cause

    s = await stage(asking, policy=load(policy, filename="checkpoints.toml"))
    for expected in answers:
        run_id = await s.go("region", "x")
        if expected == "answered":
            await answered(s, run_id, "eu")
        assert (await s.run(run_id)).answer == expected


async def test_an_argument_called_answer_makes_no_question(stage: Any) -> None:
    """A limit that denies questions leaves approvals to people, whatever a tool and its arguments are called."""

    @tool(name="external", requires_approval=True)
    def tell(answer: str) -> str:
        """Tell the customer."""
        return answer

    @function_agent(tools=[tell])
    async def telling(task: str) -> str:
        return str(await step(tell, answer=task))

    policy = load(BOUNDED.replace('"ask"', '"external"'), filename="checkpoints.toml")
    s = await stage(telling, policy=policy)
    for task in ("one", "two"):
        run_id = await s.go("telling", task)
        (call,) = await s.calls(run_id)
        assert call.request_id is not None, "people are asked"
        if task == "one":
            await s.approve(call)
            assert (await s.run(run_id)).answer == "one"


GATED: list[str] = []


@tool(requires_approval=True)
def deploy(region: str) -> str:
    """Deploy to a region."""
    GATED.append(region)
    return f"deployed to {region}"


@function_agent(tools=[deploy])
async def chosen(task: str) -> str:
    region = (await ask("Deploy where? Your answer deploys.", options=["eu", "us"])).require()
    return str(await step(deploy, region=region))


async def test_an_answer_makes_no_gated_tool_run(stage: Any) -> None:
    """A tool with what people answered meets policy as always: they are asked, and it runs with an approval only."""
    GATED.clear()
    s = await stage(chosen)
    run_id = await s.go("chosen", "x")
    await answered(s, run_id, "us")
    assert GATED == []
    assert (await s.run(run_id)).status is RunStatus.PENDING_APPROVAL
    assert await s.sql("SELECT FROM execution") == []
    (call,) = [call for call in await s.calls(run_id) if call.tool == "deploy"]
    request = await s.request(call)
    assert (request.is_question, request.action.arguments) == (False, {"region": "us"})
    said = AnswerForm.of({"enum": ["us"]}).read("us")
    standing = Standing(REVIEWER, frozenset({"channel"}))
    forged = Ballot(request.id, 1, Verdict.ANSWER, standing, {REVIEWER: standing}, "test", answer=said)
    with pytest.raises(Refused):
        await alone.vote(s.db, forged)
    await s.play()
    assert GATED == []
    await s.approve(call)
    assert GATED == ["us"]
    assert "deployed to us" in ((await s.run(run_id)).answer or "")


async def test_an_answer_to_a_dead_question_reaches_no_function(stage: Any) -> None:
    """Once a question is withdrawn, its function goes on without a value, and a late answer changes nothing."""
    s = await stage(region)
    run_id = await s.go("region", "x")
    request = await the_request(s, run_id)
    assert await requests.withdraw(s.db, request.id, ASKER, "not needed")
    await s.play()
    with pytest.raises(Refused) as refused:
        await answered(s, run_id, "us")
    assert refused.value.code is Refusal.WITHDRAWN
    assert (await s.run(run_id)).answer == "withdrawn: None (not needed)"


@function_agent
async def certain(task: str) -> None:
    (await ask("Are you certain?")).require()


@pytest.mark.parametrize("asking", [chosen, certain], ids=["a choice", "yes or no"])
async def test_a_function_that_needs_a_withdrawn_answer_ends_as_withdrawn(stage: Any, asking: Any) -> None:
    """Nobody has rejected it, and its run does not say so."""
    s = await stage(asking)
    run_id = await s.go(asking.name, "x")
    request = await the_request(s, run_id)
    assert await requests.withdraw(s.db, request.id, ASKER, "not needed")
    await s.play()
    run = await s.run(run_id)
    assert (run.status, run.cause) == (RunStatus.DENIED, "withdrawn")
