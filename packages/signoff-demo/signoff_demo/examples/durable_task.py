"""An agent without a model: it works, waits for approval, for days if necessary, and continues or ends denied."""

from __future__ import annotations

from signoff import ask, function_agent, set_status, step


def prepare(task: str) -> str:
    """The part that needs no approval."""
    return f"prepared: {task}"


def carry_out(task: str) -> str:
    """The part that needs approval."""
    return f"carried out: {task}"


# --8<-- [start:agent]
@function_agent(name="durable-task", tools=[prepare, carry_out])
async def durable_task(task: str) -> str:
    """Works on a task, and asks for approval before the main step."""
    await set_status("preparing")
    await step(prepare, task=task)
    await set_status("waiting for a person's word")
    decision = await ask(f"Should I proceed with task: {task}?", timeout="72h")
    decision.require()  # a rejection, or no answer in time, ends the run
    await set_status("carrying out")
    await step(carry_out, task=task)
    return f"Agent successful: {task}"
    # --8<-- [end:agent]
