"""The whole service follows the policy in force, with every setting in it."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from agent.domain import checkpoints
from agent.runtime.agents import Agent
from agent.usecases import policy as policies
from slackbot.service import slack_service
from slackbot.service.slack_service import NotConnected
from tests.integration.service.conftest import POLICY, House, until

ADMIN = POLICY.replace(
    "[defaults]", '[defaults]\nadmin_channel = "C0AGENTS"\ndefault_agent = "data"\ncards_per_minute = 3'
)

MISSING = """
[[checkpoint]]
checkpoint_id = "{name}"
action_pattern = "{name}_*"
channel = "#{name}"
"""


async def test_every_process_follows_the_policy_that_is_applied(http_house: House) -> None:
    """A start with another file reports it and keeps the policy in force; an applied policy counts in every role, at
    once.
    """
    agents = [Agent("data", "You manage data.", [])]
    worker = await http_house.open(agents)
    with capture_logs() as logs:
        door = await http_house.open(agents, ADMIN, SIGNOFF_ROLES="web")
    (differs,) = [each for each in logs if each.get("action") == "policy.file_differs"]
    assert (differs["epoch"], differs["file"]) == (1, "checkpoints.toml")
    assert door._services.policy.defaults.admin_channel is None

    applied = checkpoints.load(ADMIN, filename="checkpoints.toml")
    assert (await policies.apply(http_house.db, applied, by="cli:ada")).epoch == 2

    async def both_follow() -> bool:
        drain = worker.slack.parts.drain if worker.slack.parts else None
        return bool(
            drain is not None
            and worker._scheduler is not None
            and drain._admin is not None
            and (drain._admin.channel_id, drain._cards_per_minute) == ("C0AGENTS", 3)
            and (worker._scheduler.policy.defaults.cards_per_minute, door._services.policies.seen) == (3, 2)
        )

    await until(both_follow)
    ready, parts = await door.check()
    assert (ready, parts["policy"]) == (True, "epoch 2")
    http_house.model.script("It is tidy.")
    http_house.slack.person("U0GRACE").direct("Is it tidy?")
    await http_house.shows("SELECT agent FROM agent_run", "data")


async def test_a_channel_that_is_missing_holds_up_nothing_else(
    http_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each missing channel of an applied policy is logged and looked for again, and everything else counts at once."""
    monkeypatch.setattr(slack_service, "CHANNELS_AGAIN", 0.1)
    service = await http_house.open([Agent("data", "You manage data.", [])])
    missing = [MISSING.format(name=name) for name in ("lost", "later")]
    applied = checkpoints.load("".join([ADMIN, *missing]), filename="checkpoints.toml")

    async def follows() -> bool:
        drain = service.slack.parts.drain if service.slack.parts else None
        return bool(drain and drain._admin and drain._cards_per_minute == 3)

    async def is_found() -> bool:
        try:
            return service.slack.destination("#later").channel_id == "C0LATER"
        except NotConnected:
            return False

    with capture_logs() as logs:
        await policies.apply(http_house.db, applied, by="cli:ada")
        await until(follows)
    errors = " ".join(each["error"] for each in logs if each.get("action") == "policy.channel")
    assert ("#lost" in errors, "#later" in errors) == (True, True)
    http_house.slack.workspace.add_channel("C0LATER", "later", ["U0ADA"])
    await until(is_found)
    with pytest.raises(NotConnected):
        service.slack.destination("#lost")
