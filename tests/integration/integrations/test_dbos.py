"""DBOS workflows that wait for people: the real library on a real PostgreSQL, against the running service."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from dbos import DBOS, DBOSConfig, SetWorkflowID

from agent.domain.outbound import OutboundEvent
from agent.usecases import webhooks
from signoff.client import Approval
from signoff.client.webhook import is_from_signoff
from signoff.errors import AlreadyClaimed, CollaborationError
from signoff.integrations import dbos
from signoff.integrations.dbos import DBOSApprovals, NotFromSignoff
from tests.databases import Postgres
from tests.integration.integrations.conftest import ROOT, Desk
from tests.integration.web.conftest import GRACE, until
from tests.integration.web.receiver import LOOPBACK, a_receiver

ARGUMENTS = {"table_name": "users", "count": 50}
EXAMPLE = ROOT / "examples" / "dbos_inbox.py"

approvals: DBOSApprovals
deleted: list[dict[str, Any]] = []


def delete_records(**arguments: Any) -> str:
    deleted.append(arguments)
    return f"deleted {arguments['count']}"


@DBOS.workflow()
def tidy(seconds: float | None) -> str:
    """What a user of ours would write."""
    decision = approvals.await_approval("delete_records", ARGUMENTS, timeout=seconds)
    return approvals.perform(decision, delete_records)


@DBOS.workflow()
async def tidy_in_a_loop(seconds: float | None) -> str:
    """The same as a coroutine."""
    decision = await approvals.await_approval_async("delete_records", ARGUMENTS, timeout=seconds)
    return await approvals.perform_async(decision, delete_records)


@DBOS.workflow()
def look_up() -> tuple[str, str]:
    """Something for which policy needs nobody."""
    decision = approvals.await_approval("read_records", {"table_name": "users"})
    return decision.status, approvals.perform(decision, lambda table_name: f"read {table_name}")


@DBOS.workflow()
def go_on_alone() -> str:
    """It only waits, as the agent inbox of DBOS does, and does the rest by itself."""
    return f"went on as {approvals.await_approval('delete_records', ARGUMENTS).reviewer} said"


@DBOS.workflow()
def perform(decision: Approval, idempotent: bool) -> str:
    """Only the second half, to be begun twice."""
    return approvals.perform(decision, delete_records, idempotent=idempotent)


def launch(url: str) -> None:
    """Start DBOS in this process, on this database."""
    config: DBOSConfig = {"name": "test", "system_database_url": url, "log_level": "WARNING"}
    DBOS(config=config)
    DBOS.launch()


@pytest.fixture(scope="module")
def template(postgres: Postgres) -> Iterator[str]:
    """A database in which DBOS has made its tables, to be copied: making them takes longer than most tests."""
    name = postgres.create()
    launch(postgres.url(name))
    DBOS.destroy()
    yield name
    postgres.drop(name)


@pytest.fixture
def framework_url(postgres: Postgres, template: str) -> Iterator[str]:
    """A database of DBOS' own, in which nothing has run."""
    name = postgres.create(template)
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
async def launched(actors: Desk, framework_url: str) -> AsyncIterator[Desk]:
    """DBOS in this process, on a database of its own."""
    global approvals  # noqa: PLW0603 - a workflow finds it as it finds any module's globals
    approvals = DBOSApprovals(actors.url, actors.key, webhook_secret="s3cret")
    deleted.clear()
    await asyncio.to_thread(launch, framework_url)
    yield actors
    await asyncio.to_thread(DBOS.destroy)
    # DBOS gave its threads to the loop, which goes on with the next test, and has just ended them.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


async def ended(handle: Any) -> Any:
    """Its result, or what it raised."""
    return await asyncio.wait_for(asyncio.to_thread(handle.get_result), 20)


async def waits(workflow: str, times: int = 1) -> None:
    """Until it has recorded for the n-th time how long it waits: the last thing before it does."""

    async def look() -> bool:
        steps = await DBOS.list_workflow_steps_async(workflow)
        return sum(step["function_name"] == "DBOS.sleep" for step in steps) == times

    await until(look)


@pytest.mark.parametrize("kind", ["function", "coroutine"])
async def test_what_people_decided_is_done_once(launched: Desk, kind: str) -> None:
    """A workflow waits, also when somebody sends it word that was never decided; the sweep finds the decision that no
    webhook told; what a reviewer made of it is what runs.
    """
    with SetWorkflowID(f"tidy/{kind} 1"):
        if kind == "function":
            handle: Any = await asyncio.to_thread(DBOS.start_workflow, tidy, None)
        else:
            handle = await DBOS.start_workflow_async(tidy_in_a_loop, None)
    request = await launched.asked()
    await waits(handle.workflow_id)
    name = (await launched.grace.get(f"/pending/{request}")).json()["request_id"]
    await DBOS.send_async(handle.workflow_id, "approved", topic=name)
    await waits(handle.workflow_id, times=2)
    assert await asyncio.to_thread(approvals.sweep) == 0
    assert deleted == []
    await launched.edit(request, {"table_name": "users", "count": 3})
    assert await asyncio.to_thread(approvals.sweep) == 1
    result = await (ended(handle) if kind == "function" else handle.get_result())
    assert (result, deleted) == ("deleted 3", [{"table_name": "users", "count": 3}])
    assert await launched.executions() == ["succeeded"]
    assert await asyncio.to_thread(approvals.sweep) == 0


async def test_an_approval_without_perform_is_closed(launched: Desk) -> None:
    """The sweep claims and reports it once its workflow has ended, not before."""
    handle: Any = await asyncio.to_thread(DBOS.start_workflow, go_on_alone)
    request = await launched.asked()
    await waits(handle.workflow_id)
    await launched.decide(request)
    assert await asyncio.to_thread(approvals.sweep) == 1
    assert await ended(handle) == f"went on as {GRACE.user_id} said"
    await asyncio.to_thread(approvals.sweep)
    execution = (await launched.grace.get(f"/pending/{request}")).json()["execution"]
    assert execution["status"] == "succeeded"
    assert f"handed over to the workflow {handle.workflow_id}" in execution["result"]


async def test_no_and_no_answer_end_it(launched: Desk) -> None:
    """Rejected: the reviewer's reason. Nobody in time: the cause is "expired", and nobody is asked any more. Either
    error is the workflow's own, as it was. What policy lets run is done at once.
    """
    rejected = await asyncio.to_thread(DBOS.start_workflow, tidy, None)
    request = await launched.asked()
    await waits(rejected.workflow_id)  # the sweep below is the only one, and wakes who waits
    await launched.decide(request, "rejected", reason="Not these")
    assert await asyncio.to_thread(approvals.sweep) <= 1
    with pytest.raises(CollaborationError, match=r"rejected by .*: Not these") as no:
        await ended(rejected)
    assert (no.value.cause, no.value.reviewer) == ("rejected", GRACE.user_id)
    silent = await asyncio.to_thread(DBOS.start_workflow, tidy, 1.0)
    with pytest.raises(CollaborationError, match="expired") as silence:
        await ended(silent)
    assert (silence.value.cause, silence.value.reviewer) == ("expired", None)
    assert await launched.statuses() == ["rejected", "cancelled"]
    assert deleted == []
    unasked = await asyncio.to_thread(DBOS.start_workflow, look_up)
    assert await ended(unasked) == ("not_required", "read users")


async def test_what_was_begun_is_not_begun_again(launched: Desk) -> None:
    """A claim that an earlier life took ends the workflow, unless the function is idempotent and the claim its own."""
    asked = await asyncio.to_thread(approvals._client.submit, "delete_records", ARGUMENTS, key="k-1")
    await launched.decide(str(asked.id))
    decision = Approval("approved", "delete_records", ARGUMENTS, "k-1", id=asked.id, digest=asked.digest)
    with SetWorkflowID("second-life"):
        await asyncio.to_thread(approvals._client.claim, decision, attempt="dbos:second-life:1")
        handle = await asyncio.to_thread(DBOS.start_workflow, perform, decision, True)
    assert await ended(handle) == "deleted 50"
    handle = await asyncio.to_thread(DBOS.start_workflow, perform, decision, False)
    with pytest.raises(AlreadyClaimed):
        await ended(handle)
    assert len(deleted) == 1


DYING = """
import os, signal, sys
from dbos import DBOS, SetWorkflowID
from signoff.integrations.dbos import DBOSApprovals

approvals = DBOSApprovals(os.environ["SIGNOFF_URL"], os.environ["SIGNOFF_KEY"])
calls, idempotent, url = sys.argv[1], sys.argv[2] == "True", sys.argv[3]
is_first_life = not os.path.exists(calls)

def read(table_name):
    with open(calls, "a") as file:
        file.write("read ")
    if is_first_life:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"read {table_name}"

@DBOS.workflow()
def read_or_die():
    decision = approvals.await_approval("read_records", {"table_name": "users"})
    return approvals.perform(decision, read, idempotent=idempotent)

DBOS(config={"name": "dying", "system_database_url": url, "application_version": "1", "log_level": "WARNING"})
DBOS.launch()
with SetWorkflowID("read-or-die"):
    handle = DBOS.start_workflow(read_or_die) if is_first_life else DBOS.retrieve_workflow("read-or-die")
try:
    print(handle.get_result())
except Exception as error:
    print(type(error).__name__)
DBOS.destroy()
"""


@pytest.mark.parametrize(
    ("idempotent", "result", "times"), [(False, "AlreadyClaimed", 1), (True, "read users", 2)]
)
async def test_what_needed_nobody_is_not_begun_again(
    actors: Desk, framework_url: str, tmp_path: Path, idempotent: bool, result: str, times: int
) -> None:
    """After a kill -9 within a function that needed no approval, the recovered workflow calls it again only if it is
    idempotent.
    """
    script, calls = tmp_path / "dying.py", tmp_path / "calls"
    script.write_text(DYING)

    async def live() -> tuple[int | None, str]:
        process = await actors.run(script, str(calls), str(idempotent), framework_url)
        printed, said = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, printed.decode() or said.decode()

    status, said = await live()
    assert status == -9, said
    assert await live() == (0, f"{result}\n")
    assert calls.read_text().split() == ["read"] * times


@pytest.fixture
def settings() -> dict[str, str]:
    """Receivers stand on this machine."""
    return {"SIGNOFF_WEBHOOK_NETWORKS": "127.0.0.0/8"}


async def test_only_signoff_is_heard(launched: Desk) -> None:
    """A webhook wakes the workflow when it is signed with the secret; altered or old it is refused, and other
    programs' requests are of no interest.
    """
    handle = await asyncio.to_thread(DBOS.start_workflow, tidy, None)
    request = await launched.asked()
    async with a_receiver() as receiver:
        secret = await webhooks.add(
            launched.site.db, "test", receiver.url, [OutboundEvent.DECISION_MADE], by="test", allowed=LOOPBACK
        )
        other = await asyncio.to_thread(approvals._client.submit, "delete_records", ARGUMENTS, key="k-1")
        await launched.decide(str(other.id))
        await launched.decide(request)
        await until(lambda: _true(len(receiver.received) == 2))
        first, second = receiver.received
    approvals._secret = secret
    woke = [await approvals.hear_async(each.headers, each.body) for each in (first, second)]
    assert sorted(woke) == [False, True]
    assert await ended(handle) == "deleted 50"
    with pytest.raises(NotFromSignoff):
        await approvals.hear_async(first.headers, first.body + b" ")
    old = first.headers | {"Signoff-Timestamp": "1000000000"}
    assert not is_from_signoff(secret, old, first.body)
    assert not is_from_signoff(secret, {}, b"")


async def _true(value: object) -> bool:
    return bool(value)


@pytest.mark.parametrize("workflow", ["3f0d-1", "nightly/users 7", "~a:b", "é"])
def test_a_workflow_is_found_again_by_its_requests_name(workflow: str) -> None:
    """Whatever a workflow is called, the name of its request leads back to it, and no other program's name does."""
    assert dbos.workflow_of(dbos.request_name(workflow, 3)) == workflow
    assert dbos.workflow_of("nightly-7") is None
    with pytest.raises(ValueError, match="too long"):
        dbos.request_name("x" * 200, 1)


@pytest.fixture
def port() -> int:
    """One that is free."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def test_the_inbox_of_agents(actors: Desk, framework_url: str, port: int) -> None:
    """The example: an agent waits, its process is killed with -9 and restarted; a click in Slack, announced by the
    webhook, resumes it, another one denies with a reason; the lists show each where it belongs.
    """
    address = f"http://127.0.0.1:{port}"
    secret = await webhooks.add(
        actors.site.db,
        "inbox",
        f"{address}/signoff",
        [OutboundEvent.DECISION_MADE],
        by="test",
        allowed=LOOPBACK,
    )
    settings = {
        "DBOS_SYSTEM_DATABASE_URL": framework_url,
        "SIGNOFF_WEBHOOK_SECRET": secret,
        "PORT": str(port),
    }
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=20) as inbox:

        async def listed(which: str) -> list[Any]:
            try:
                return list((await inbox.get(f"/agents/{which}")).json())
            except httpx.TransportError:
                return []

        async def start() -> Any:
            process = await actors.run(EXAMPLE, **settings)

            async def up() -> bool:
                assert process.returncode is None, (await process.stderr.read()).decode()  # type: ignore[union-attr]
                try:
                    return (await inbox.get("/docs")).status_code == 200
                except httpx.TransportError:
                    return False

            await until(up, 30)
            return process

        process = await start()
        for number, task in enumerate(("tidy up", "burn down"), 1):
            await inbox.post("/agents", json={"name": "agent", "task": task})
            await actors.asked(number)
        await until(lambda: listed("waiting"))
        process.kill()
        await process.wait()
        process = await start()

        async def both() -> bool:
            return sorted(each["task"] for each in await listed("waiting")) == ["burn down", "tidy up"]

        await until(both)  # DBOS takes up what was under way in the background
        await actors.click(number=0)
        [approved] = await until(lambda: listed("approved"), 20)
        assert (approved["task"], approved["status"]) == ("tidy up", "working")
        assert approved["question"] == "Should I proceed with task: tidy up?"
        await actors.decide(await actors.asked(2), "rejected", reason="No fires")
        [denied] = await until(lambda: listed("denied"), 20)
        assert (denied["task"], denied["status"]) == ("burn down", "denied")
        assert await listed("waiting") == []
    assert await actors.statuses() == ["approved", "rejected"]
    assert await actors.executions() == ["succeeded"]
