"""`signoff gate` as a process of its own against the running service: its command runs when people approved it only."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from agent.runtime.judging.edits import schema_of
from agent.usecases.requests import EditOutcome
from signoff.errors import MalformedArguments, SignoffError
from signoff.gate.facts_command import facts_command
from signoff.values import COMMAND
from slackbot.cards import edit_fields
from slackbot.reviewing import edits
from slackbot.web.http import places
from slackbot.web.http.metrics import WAITS_CUT_SHORT
from tests.doc_blocks import blocks
from tests.integration.asking import write
from tests.integration.command import Command
from tests.integration.crash.process import environment
from tests.integration.web.conftest import GRACE, Program, Street, until
from tests.integration.web.shell import Shell, Started, processes  # noqa: F401
from tests.warm_python import warm

DEPLOY = ("--action", "deploy", "--arg", "env=prod", "--arg", "instances:=3")
ARGUMENTS = {"env": "prod", "instances": 3}
SHOWS = 'echo "$SIGNOFF_ARG_ENV $SIGNOFF_ARG_INSTANCES $SIGNOFF_ARGUMENTS" > ran; exit 7'


@pytest.fixture
def policy() -> str:
    return """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]

[[checkpoint]]
checkpoint_id = "deployments"
action_pattern = "deploy"
description_template = "Deploy to {args.env}"
allow_edit = true
editor_may_approve = true

[[checkpoint]]
checkpoint_id = "restarts"
action_pattern = "restart"
when = "args.env == 'prod'"

[[checkpoint]]
checkpoint_id = "removals"
action_pattern = "restart"
when = "args.signoff_command[0] == 'rm'"

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "refund"
when = "facts.price > 1000.0"
"""


@dataclass
class Gate(Shell):
    """`signoff gate`, in a folder of its own with a key of Ada's."""

    def __call__(self, *arguments: str) -> Started:
        """Start it."""
        return self.start("gate", *arguments)

    @property
    def ran(self) -> str | None:
        """What the command has written; `None`: it has not run."""
        written = self.folder / "ran"
        return written.read_text().strip() if written.exists() else None


@pytest.fixture
async def gate(site: Street, tmp_path: Path, processes: ForkServerContext) -> AsyncIterator[Gate]:  # noqa: F811
    async with Gate.opened(site, tmp_path, processes) as gate:
        yield gate


@pytest.fixture
async def grace(site: Street) -> Program:
    return await site.reviewer()


async def test_approved_it_runs_with_its_own_exit_code(gate: Gate, grace: Program) -> None:
    """It says what it waits for and where; nothing runs before the approval; then once, with typed arguments, and the
    exit code is the command's, which the record knows with the time it took.
    """
    started = gate(*DEPLOY, "--context", "commit=abc", "--", "sh", "-c", SHOWS)
    await started.says("waiting for people to decide: Deploy to “prod”")
    await started.says("decide at http")
    request = await gate.request()
    assert gate.ran is None
    asked = (await grace.get(f"/pending/{request}")).json()
    assert asked["action"]["arguments"] == ARGUMENTS | {COMMAND: ["sh", "-c", SHOWS]}
    assert asked["agent_context"] == {"commit": "abc"}
    await grace.decides(request)
    code, said = await started.ends()
    assert (code, str(gate.ran)) == (7, f"prod 3 {json.dumps(ARGUMENTS, separators=(',', ':'))}")
    assert f"approved by {GRACE.user_id}" in said
    assert await gate.executions() == ["failed: exit code 7"]


async def test_the_commands_of_the_page_run(gate: Gate, grace: Program) -> None:
    """Each asks people, and runs its command once they have approved."""
    script = gate.folder / "deploy.sh"
    script.write_text("#!/bin/sh\necho deployed >> ran\n")
    script.chmod(0o700)
    lines = [
        line
        for block in blocks("docs/gate.md")
        for line in block.commands
        if line.startswith("signoff gate ")
    ]
    for line in lines:
        started = gate.start(*shlex.split(line)[1:])
        await grace.decides(await gate.request())
        assert (await started.ends())[0] == 0
    assert str(gate.ran).split() == ["deployed"] * len(lines) != []


async def test_silence_and_rejection_run_nothing(gate: Gate, grace: Program) -> None:
    """Rejected: 77, with the reason. Nobody in time: 75 and the request is withdrawn, unless its own time ended it."""
    rejected = gate(*DEPLOY, "--", "touch", "ran")
    await grace.decides(await gate.request(), "rejected", reason="Not on a Friday")
    code, said = await rejected.ends()
    assert code == 77
    assert f"rejected by {GRACE.user_id}: Not on a Friday" in said
    code, said = await gate(*DEPLOY, "--timeout", "1s", "--", "touch", "ran").ends()
    assert (code, await gate.statuses()) == (75, ["rejected", "cancelled"])
    assert "nobody has decided in time; the request was withdrawn" in said
    open_ended = gate(*DEPLOY, "--", "touch", "ran")
    await gate.request()
    past = "created_at = now() - interval '2 days', expires_at = now() - interval '1 day'"
    await write(gate.site.db, f"UPDATE approval_request SET {past} WHERE status = 'waiting'")
    code, said = await open_ended.ends()
    assert code == 75
    assert "expired" in said
    assert gate.ran is None


async def test_a_signal_takes_the_question_back(gate: Gate) -> None:
    """Ctrl-C or SIGTERM while it waits: the request is withdrawn, also one with a key; nothing runs."""
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        started = gate(*DEPLOY, "--key", f"release-{code}", "--", "touch", "ran")
        await started.says("waiting for people")
        started.send(number)
        assert (await started.ends())[0] == code
    assert (gate.ran, await gate.statuses()) == (None, ["cancelled", "cancelled"])


async def test_a_second_start_with_the_same_key_finds_the_first_ones_request(
    gate: Gate, grace: Program
) -> None:
    """Killed while it waits and started again, it runs once after one approval; a third start begins nothing (76)."""
    deploy = (*DEPLOY, "--key", "release-7", "--", "sh", "-c", "echo once >> ran")
    first = gate(*deploy)
    request = await gate.request()
    first.process.kill()
    second = gate(*deploy)
    await second.says(request)
    await grace.decides(request)
    assert (await second.ends())[0] == 0
    assert await gate.executions() == ["succeeded: exit code 0"]
    code, said = await gate(*deploy).ends()
    assert (code, gate.ran, await gate.statuses()) == (76, "once", ["approved"])
    assert "an earlier start with this --key has already begun" in said
    code, said = await gate(*DEPLOY, "--key", "release-7", "--", "touch", "other").ends()
    assert code == 2
    assert "--key release-7 was already used for another question" in said


async def test_a_gate_names_no_session_unless_it_is_given_one(gate: Gate) -> None:
    """`--session` and SIGNOFF_SESSION name it, also for a question asked without one; a wrong one asks nobody."""
    gate(*DEPLOY, "--key", "release-7", "--", "true")
    await gate.request()
    again = gate(*DEPLOY, "--key", "release-7", "--session", "night-1", "--", "true")
    await again.says("waiting for people")
    gate.settings["SIGNOFF_SESSION"] = "night-2"
    await gate(*DEPLOY, "--key", "release-8", "--", "true").says("waiting for people")
    assert await gate.site.sessions() == [None, "night-2"]
    code, said = await gate(*DEPLOY, "--session", "x" * 201, "--", "true").ends()
    assert (code, "1 to 200 characters" in " ".join(said.split())) == (2, True)


async def change(gate: Gate, request: str) -> None:
    """Grace makes two instances of three; everything else stays what it is."""
    assert (await save(gate, request, instances=2)).changed


async def save(gate: Gate, request: str, **changes: Any) -> EditOutcome:
    """Grace saves these changes, as the pages and Slack's forms do."""
    view, ctx = await gate.view(request), gate.ctx
    arguments = {**view.action.arguments, **changes}
    return await edits.save(ctx.services, ctx.directory, GRACE, view, 1, arguments, path="page")


async def test_changed_arguments_are_honoured_or_refused(gate: Gate, grace: Program) -> None:
    """With --accept-edits the command's environment holds what was decided; without, the gate stays shut (78) and the
    card says why. In neither case does the command run with what was asked about at first, and no log has a secret.
    """
    for option in ([], ["--accept-edits"]):
        started = gate(*DEPLOY, "--arg", "password=Tr0ub4dor", *option, "--", "sh", "-c", SHOWS)
        request = await gate.request()
        await change(gate, request)
        await grace.decides(request, revision=2)
        code, said = await started.ends()
        if option:
            assert (code, str(gate.ran).split()[:2]) == (7, ["prod", "2"])
            assert 'with {"env": "prod", "instances": 2, "password": ' in said
            assert "Tr0ub4dor" in str(gate.ran)
            assert "Tr0ub4dor" not in said
        else:
            assert (code, gate.ran) == (78, None)
            assert "use --accept-edits to accept changes" in said
            assert "not run: a reviewer changed the arguments" in (await gate.executions())[0]


async def test_the_command_is_what_people_approve(gate: Gate, grace: Program) -> None:
    """Policy and reviewers see the command itself; nobody edits it, also where the arguments may be changed."""
    gate(*DEPLOY, "--accept-edits", "--", "touch", "ran")
    request = await gate.request()
    with pytest.raises(
        MalformedArguments, match=r"\$\.signoff_command: the command that runs cannot be changed"
    ):
        await save(gate, request, signoff_command=["touch", "other"])
    view = await gate.view(request)
    fields = edit_fields(view, schema_of(gate.ctx.agents, view))
    assert {each.property.name: each.fixed for each in fields} == {
        "env": "",
        "instances": "",
        COMMAND: "cannot be edited",
    }
    await grace.decides(request, "rejected", reason="no")
    restart = ("--action", "restart", "--arg", "env=staging", "--")
    assert (await gate(*restart, "touch", "ran").ends())[0] == 0
    await gate(*restart, "rm", "ran").says("waiting for people")


async def test_a_command_that_the_service_has_changed_does_not_run(
    gate: Gate, grace: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate itself compares: it stays shut (78) if the service lets somebody edit the command."""
    monkeypatch.setattr("agent.runtime.judging.edits.COMMAND", "not_reserved")
    started = gate(*DEPLOY, "--accept-edits", "--", "touch", "ran")
    request = await gate.request()
    await save(gate, request, **{COMMAND: ["touch", "other"]})
    await grace.decides(request, revision=2)
    code, said = await started.ends()
    assert (code, gate.ran, "the approved command is not the one given here" in said) == (78, None, True), (
        said
    )


async def test_sigterm_goes_on_to_the_command(gate: Gate, grace: Program) -> None:
    """Once it runs, SIGTERM is the command's to handle; its exit is reported nevertheless."""
    handles = "trap 'echo stopped > ran; exit 9' TERM; echo up > up; while :; do sleep 0.05; done"
    started = gate(*DEPLOY, "--", "sh", "-c", handles)
    await grace.decides(await gate.request())

    async def is_up() -> bool:
        return (gate.folder / "up").exists()

    await until(is_up)
    started.send(signal.SIGTERM)
    assert (await started.ends())[0] == 9
    assert (gate.ran, await gate.executions()) == ("stopped", ["failed: exit code 9"])


async def test_policy_may_need_nobody(gate: Gate) -> None:
    """Where the checkpoint's condition is false nobody is asked, and the gate says so; an action without a checkpoint
    is asked about. The command sees nothing of an outer gate's decision.
    """
    gate.settings |= {
        "SIGNOFF_IDEMPOTENCY_KEY": "outer",
        "SIGNOFF_REQUEST_ID": "outer",
        "SIGNOFF_ARG_ENV": "outer",
    }
    restart = ("--action", "restart", "--arg", "env=staging")
    code, said = await gate(*restart, "--", "sh", "-c", "env | grep -c outer > ran; true").ends()
    assert (code, gate.ran, await gate.statuses()) == (0, "0", [])
    assert "policy needs nobody's approval for restart" in said
    await gate("--action", "delpoy", "--", "touch", "ran").says("waiting for people")


@pytest.mark.parametrize(
    ("arguments", "changes", "code", "words"),
    [
        (("--arg", "n:=three"), {}, 2, "is not JSON"),
        (("--context", r'note:="\u0000"'), {}, 2, "--context note: it contains a NUL character"),
        (("--arg", "env"), {}, 2, "write name=text, or name:=JSON, such as --arg env=prod"),
        (("--arg", "my env=prod"), {}, 2, "'my env' must have only letters, digits and `_.-`"),
        (("--context", "=prod"), {}, 2, "and begin with a letter or `_`, such as `env`"),
        (("--arg", "a" * 65 + "=1"), {}, 2, "must have at most 64 characters"),
        (("--action", "rm -rf /"), {}, 2, "'rm -rf /' must have only letters, digits and `_.:-`"),
        (("--action", ""), {}, 2, "such as `delete_records`"),
        (("--key", "release 17"), {}, 2, "'release 17' must have only letters, digits and `_.:@~-`"),
        (("--requester", "@ada"), {}, 2, "'@ada' must be a person's id in Slack, such as `U012ABCDEF`"),
        (("--context", "command=kubectl get pods"), {}, 2, "--context command: this name is reserved"),
        (("--arg", "signoff_command=ls"), {}, 2, "--arg signoff_command: this name is reserved"),
        (("--arg", "a-b=1", "--arg", "a_b=2"), {}, 2, "two arguments would both be SIGNOFF_ARG_A_B"),
        ((), {"SIGNOFF_URL": ""}, 2, "SIGNOFF_URL is not set"),
        ((), {"SIGNOFF_URL": "here"}, 2, "must begin with https://"),
        ((), {"SIGNOFF_KEY": ""}, 2, "SIGNOFF_KEY is not set"),
        ((), {"SIGNOFF_KEY_FILE": "nowhere"}, 2, "SIGNOFF_KEY and SIGNOFF_KEY_FILE are both set"),
        ((), {"SIGNOFF_KEY": "", "SIGNOFF_KEY_FILE": "nowhere"}, 2, "SIGNOFF_KEY_FILE: cannot read nowhere"),
        (("--lease", "48h"), {}, 2, "--lease must be between"),
        (("--", "nonesuch"), {}, 127, "there is no command nonesuch; nobody was asked"),
        (("--timeout", "1s"), {}, 69, "does not answer"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_before_anybody_is_asked(
    signoff: Command, arguments: tuple[str, ...], changes: dict[str, str], code: int, words: str
) -> None:
    """An option, a setting or a command that is wrong: one line that names it, its exit code, and no request."""
    settings = {"SIGNOFF_URL": "http://127.0.0.1:9", "SIGNOFF_KEY": "k", **changes}
    command = () if "--" in arguments else ("--", "true")
    ended = signoff("gate", "--action", "deploy", *arguments, *command, **settings)
    assert (ended.status, words in ended.said) == (code, True), ended.said
    assert "[A-Z" not in ended.said


async def test_the_command_of_a_shell(gate: Gate, grace: Program) -> None:
    """`python -m slackbot gate` from end to end, with pipes: the command's output is its own, ours is on stderr."""
    process = await asyncio.create_subprocess_exec(
        *(
            warm(),
            "-m",
            "slackbot",
            "gate",
            *DEPLOY,
            "--",
            "sh",
            "-c",
            'cat; echo "$SIGNOFF_ARG_ENV"',
        ),
        env=environment(gate.settings),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    ended = asyncio.create_task(process.communicate(b"piped "))
    await grace.decides(await gate.request())
    out, said = await asyncio.wait_for(ended, 20)
    assert (process.returncode, out) == (0, b"piped prod\n")
    assert said.startswith(b"signoff: waiting for people")


async def test_a_facts_command_tells_the_truth(gate: Gate, grace: Program) -> None:
    """A lie in the arguments is asked about; another price at the claim is asked about again; then it runs."""
    (gate.folder / "price").write_text('{"price": 1500}')
    look = ("--facts-command", "sh -c 'cat > asked; cat price'")
    started = gate("--action", "refund", "--arg", "amount:=1", *look, "--", "sh", "-c", "echo done > ran")
    request = await gate.request()
    assert json.loads((gate.folder / "asked").read_text())["amount"] == 1
    assert (await grace.get(f"/pending/{request}")).json()["facts"] == {"price": 1500}
    (gate.folder / "price").write_text('{"price": 2500}')
    await grace.decides(request)
    await started.says("asked again: the facts or the policy have changed since it was approved")
    again = await gate.request()
    assert (again != request, gate.ran) == (True, None)
    await grace.decides(again)
    code, said = await started.ends()
    assert (code, gate.ran) == (0, "done"), said


@pytest.mark.parametrize("look", ["false", "echo [1]", "sh -c 'echo {; exit 0'", "no-such-command"])
def test_a_facts_command_that_fails_tells_no_facts(look: str) -> None:
    """An exit code, what is no object, broken JSON and a missing command are all failures."""
    with pytest.raises(SignoffError):
        facts_command(look)("refund", {"amount": 1})


async def test_a_facts_command_that_fails_lets_nothing_run(gate: Gate, grace: Program) -> None:
    """People are asked, and an approval does not begin the command while the facts cannot be looked up."""
    small = ("--action", "restart", "--arg", "env=test", "--facts-command", "false")
    started = gate(*small, "--", "touch", "ran")
    await grace.decides(await gate.request())
    code, said = await started.ends()
    assert (code, gate.ran) == (77, None)
    assert "the facts command ended with exit code 1" in said


async def test_it_goes_on_waiting_beside_many_others(
    gate: Gate, grace: Program, site: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that answers its waits at once is asked again, and the command runs when people approved it."""
    monkeypatch.setattr(places, "SOONEST", 1.0)
    monkeypatch.setattr(site.service.web.places, "most", 0)
    before = WAITS_CUT_SHORT._value.get()
    started = gate(*DEPLOY, "--", "sh", "-c", SHOWS)
    request = await gate.request()

    async def asked_again() -> bool:
        return WAITS_CUT_SHORT._value.get() >= before + 2

    await until(asked_again)
    assert gate.ran is None
    await grace.decides(request)
    assert (await started.ends())[0] == 7
