"""What is judged, shown and stored is what the tool gets, whatever its types make of the model's JSON."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator, Field, HttpUrl, SecretStr, StringConstraints, computed_field

from agent.domain.limits import Limit
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.rules import Defaults, Rule
from agent.domain.run import AnswerKind, CallState, RunStatus
from agent.runtime.agents import Agent, Registry
from agent.runtime.judging import edits
from agent.runtime.tool import Tool
from agent.usecases.requests import EditAttempt
from signoff import StepFailed, function_agent, step, tool
from tests.integration.runtime.conftest import REVIEWER
from tests.integration.runtime.test_runtime_calls import proposing

Lower = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]
Cents = Annotated[int, BeforeValidator(lambda value: value * 100)]

PROD = Rule(checkpoint_id="prod", action_pattern="deploy", when="args.env == 'prod'", on_reject="tell_model")
ONLY_PROD = Policy(defaults=Defaults(unmatched="allow"), rules=(PROD,))
ALLOW = Policy(defaults=Defaults(unmatched="allow"))
ALL = Rule(checkpoint_id="all", action_pattern="deploy", on_reject="tell_model")
"""Nobody is asked about anything else."""


class Order(BaseModel):
    sku: Lower
    count: int = 1

    @computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        return f"{self.count} {self.sku}"


class Job(BaseModel):
    id: uuid.UUID = Field(default_factory=uuid.uuid4)


def recording(annotation: Any, **options: Any) -> tuple[Tool[..., Any], list[Any]]:
    got: list[Any] = []

    def deploy(env: Any) -> str:
        got.append(env)
        return f"deployed {env}"

    deploy.__annotations__["env"] = annotation
    return tool(**options)(deploy), got


async def staged(stage: Any, made: Tool, policy: Policy | None = None, **arguments: Any) -> tuple[Any, Any]:
    on = await stage(Agent("ops", "Deploy.", [made]), policy=policy)
    on.model.script(proposing((made.name, arguments)), "Done.", "Done.")
    return on, await on.go("ops", "go")


def serve(on: Any, made: Tool) -> None:
    """Restart with this version of the tool."""
    on.services = replace(on.services, registry=Registry([Agent("ops", "Deploy.", [made])]))


@pytest.mark.parametrize(
    ("annotation", "given", "judged", "value"),
    [
        (Lower, " PROD", "prod", "prod"),
        (HttpUrl, "HTTPS://EXAMPLE.com", "https://example.com/", HttpUrl("https://example.com/")),
        (Order, {"sku": "DESK"}, {"sku": "desk", "count": 1}, Order(sku="desk")),
        (set[str], ["b", "a", "b"], ["a", "b"], {"a", "b"}),
        (Decimal, "5000.0", 5000, Decimal(5000)),
        (dt.timedelta, "PT60M", "PT1H", dt.timedelta(hours=1)),
    ],
)
@pytest.mark.parametrize("asked", [True, False])
async def test_the_card_the_row_and_the_function_have_the_same_value(
    stage, annotation: Any, given: Any, judged: Any, value: Any, asked: bool
) -> None:
    """People approve, or policy lets through, exactly what the function gets."""
    made, got = recording(annotation)
    on, run_id = await staged(stage, made, None if asked else ALLOW, env=given)
    (call,) = await on.calls(run_id)
    if asked:
        assert (await on.request(call)).action.arguments == {"env": judged}
        await on.approve(call)
    stored = await on.sql("SELECT convert_from(action, 'UTF8')::json -> 'arguments' FROM tool_call")
    assert stored == [({"env": judged},)]
    assert got == [value]


@pytest.mark.parametrize("given", ["PROD", " prod ", "Prod\n"])
async def test_a_condition_reads_what_the_function_gets(stage, given: str) -> None:
    """Another spelling does not pass a checkpoint by."""
    made, got = recording(Lower)
    on, run_id = await staged(stage, made, ONLY_PROD, env=given)
    (call,) = await on.calls(run_id)
    assert (call.state, got) == (CallState.ASKED, [])


@pytest.mark.parametrize("given", [5000, "5000", "5000.00", "5E+3"])
async def test_a_decimal_is_compared_and_counted_as_a_number(stage, given: Any) -> None:
    """However it is written, a condition and a limit know its amount."""
    over = Rule(checkpoint_id="big", action_pattern="deploy", when="args.env == 5000", on_reject="stop")
    made, got = recording(Decimal)
    on, run_id = await staged(
        stage, made, Policy(defaults=Defaults(unmatched="allow"), rules=(over,)), env=given
    )
    assert ((await on.calls(run_id))[0].state, got) == (CallState.ASKED, [])
    limit = Limit("sum", "deploy", "args.env", "all", dt.timedelta(days=1), Decimal(4999))
    on, run_id = await staged(
        stage, made, Policy(defaults=Defaults(unmatched="allow"), limits=(limit,)), env=given
    )
    assert ((await on.calls(run_id))[0].state, got) == (CallState.ASKED, [])


async def test_a_value_that_changes_each_time_goes_back_to_the_model(stage) -> None:
    """Nobody is asked, nothing runs, and the model reads the path."""
    made, got = recording(Cents)
    on, run_id = await staged(stage, made, env=50)
    (call,) = await on.calls(run_id)
    assert call.answer is not None
    assert call.answer.kind is AnswerKind.MALFORMED
    assert "$.env: changes each time it is read" in on.model.requests[1]["messages"][-1]["content"]
    assert (got, call.request_id) == ([], None)


async def test_facts_and_hooks_get_what_the_function_gets(stage) -> None:
    """A lookup, `on_pending` and `on_refused` see the judged value."""
    seen: list[tuple[str, Any]] = []

    @tool(
        facts=lambda env: seen.append(("facts", env)),
        on_pending=lambda env: seen.append(("pending", env)),
        on_refused=lambda env, cause: seen.append((cause, env)),
    )
    def deploy(env: Lower) -> None: ...

    on, run_id = await staged(stage, deploy, Policy(rules=(ALL,)), env="PROD")
    (call,) = await on.calls(run_id)
    await on.reject(call)
    assert seen == [("facts", "prod"), ("pending", "prod"), ("rejected", "prod")]


@pytest.mark.parametrize(("typed", "judged"), [(" TEST ", "test"), ("PROD", "prod")])
async def test_an_edit_is_read_like_a_proposal(stage, typed: str, judged: str) -> None:
    """What a reviewer types is converted before policy judges it, and shown so."""
    made, _ = recording(Lower)
    rule = Rule(checkpoint_id="all", action_pattern="deploy", allow_edit=True, on_reject="stop")
    on, run_id = await staged(stage, made, Policy(rules=(rule,)), env="dev")
    (call,) = await on.calls(run_id)
    view = await on.request(call)
    attempt = EditAttempt(view.id, view.revision, Standing(REVIEWER, frozenset({"channel"})), "test")
    edit = await edits.judge_edit(on.services, view, {"env": typed}, attempt)
    assert edit.action.arguments == {"env": judged}


async def test_every_attempt_gets_the_same_default(stage) -> None:
    """A default that differs each time is filled in once; retries run with it, asked about or not."""
    got: list[uuid.UUID] = []

    @tool(idempotent=True, retries=2, backoff=60)
    def begin(job: Job) -> str:
        got.append(job.id)
        if len(got) < 3:
            raise ConnectionError("away")
        return "begun"

    on, run_id = await staged(stage, begin, ALLOW, job={})
    for _ in range(2):
        await on.sql("UPDATE tool_call SET retry_at = clock_timestamp() WHERE retry_at IS NOT NULL")
        await on.play()
    assert (len(got), len(set(got))) == (3, 1)
    assert (await on.run(run_id)).status is RunStatus.COMPLETED


async def test_an_approval_from_before_the_type_converted_is_asked_again(stage) -> None:
    """People approved `PROD`; the tool would now get `prod`: it runs only after they approved that."""
    before, _ = recording(str)
    on, run_id = await staged(stage, before, env="PROD")
    (call,) = await on.calls(run_id)
    made, got = recording(Lower)
    serve(on, made)
    await on.approve(call)
    (call,) = await on.calls(run_id)
    assert (call.state, got) == (CallState.ASKED, [])
    assert (await on.request(call)).action.arguments == {"env": "prod"}
    await on.approve(call)
    assert got == ["prod"]


async def test_what_is_asked_again_keeps_the_title_of_its_rule(stage) -> None:
    """What the rule hides is hidden in the title, too, where policy would let the changed action run."""
    before, _ = recording(str)
    terms = {"when": "args.env == 'PROD'", "redact": ("env",), "labels": (("env", "Where to"),)}
    rule = Rule(checkpoint_id="all", action_pattern="deploy", on_reject="stop", **terms)
    on, run_id = await staged(stage, before, Policy(rules=(rule,)), env="PROD")
    (call,) = await on.calls(run_id)
    made, _ = recording(Lower)
    serve(on, made)
    await on.approve(call)
    (call,) = await on.calls(run_id)
    assert (await on.request(call)).description == "deploy · Where to: “⟦redacted by-policy, 4 characters⟧”"


async def test_an_approval_that_would_run_with_another_value_is_given_up(stage) -> None:
    """People approved 50, and the type now makes 5000 of it each time: nothing runs."""
    before, _ = recording(int)
    on, run_id = await staged(stage, before, env=50)
    (call,) = await on.calls(run_id)
    made, got = recording(Cents)
    serve(on, made)
    await on.approve(call)
    assert got == []
    assert "no longer fit the tool" in on.model.requests[1]["messages"][-1]["content"]


async def test_a_call_let_through_before_the_type_converted_does_not_run(stage) -> None:
    """Policy allowed `PROD`; the next attempt would run with `prod`, so nothing runs."""

    @tool(idempotent=True, retries=3, backoff=60)
    def deploy(env: str) -> None:
        raise ConnectionError("away")

    on, _ = await staged(stage, deploy, ALLOW, env="PROD")
    made, got = recording(Lower, idempotent=True, retries=3, backoff=60)
    serve(on, made)
    await on.sql("UPDATE tool_call SET retry_at = clock_timestamp() WHERE retry_at IS NOT NULL")
    await on.play()
    assert got == []
    assert "the tool has changed" in on.model.requests[1]["messages"][-1]["content"]


async def test_a_type_that_changed_its_mind_at_the_last_moment_does_not_run(stage) -> None:
    """The function is called only with a value whose JSON was judged."""
    reads: list[str] = []

    made, got = recording(Annotated[str, BeforeValidator(lambda value: value if len(reads) < 1 else "prod")])
    on, run_id = await staged(stage, made, env="dev")
    (call,) = await on.calls(run_id)
    reads.append("from now on")
    await on.approve(call)
    assert got == []


async def test_steps_of_a_function_agent_are_read_like_calls(stage) -> None:
    """Sets are sorted, models are written without what they compute, and a secret is no argument."""
    got: list[Any] = []

    def ship(order: Order, tags: set[str], env: Lower, note: str = "") -> str:
        got.append((order, tags, env))
        return env

    @function_agent(tools=[ship])
    async def shipping(task: str) -> str:
        with pytest.raises(StepFailed, match="secret"):
            await step(ship, order=Order(sku="a"), tags={"a"}, env="a", note=SecretStr("s"))  # type: ignore[call-overload]
        return await step(ship, order=Order(sku="DESK"), tags={"b", "a", "c"}, env=" PROD")

    on = await stage(shipping, policy=ALLOW)
    run_id = await on.go("shipping", "go")
    assert (await on.run(run_id)).answer == "prod"
    assert got == [(Order(sku="desk"), {"a", "b", "c"}, "prod")]
    (call,) = await on.calls(run_id)
    assert '"tags":["a","b","c"]' in call.raw_arguments
