"""Two concurrent questions: each region is deployed once approved, then checked after a moment."""

from __future__ import annotations

import asyncio

from signoff import ask, function_agent, set_label, sleep, step


def deploy(region: str) -> str:
    """The step that needs approval."""
    return f"{region} is deployed"


def look_at(region: str) -> str:
    """The check after the deployment."""
    return f"{region} is well"


async def one_region(name: str) -> str:
    """Ask about one region, deploy it once approved, and check it a second later; a refusal is raised."""
    (await ask(f"Deploy to {name}?", timeout="24h")).require()
    await step(deploy, region=name)
    await sleep(1)
    return await step(look_at, region=name)


@function_agent(name="rollout", tools=[deploy, look_at])
async def rollout(task: str) -> str:
    """Deploys a version to two regions, each after its own approval."""
    await set_label(task)
    return ", ".join(await asyncio.gather(one_region("eu"), one_region("us")))
