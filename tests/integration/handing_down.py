from __future__ import annotations

from signoff import ask, function_agent, step


@function_agent(name="refunds")
async def refunds(task: str) -> str:
    (await ask(f"Refund {task}?")).require()
    return f"refunded {task}"


@function_agent(name="orders", tools=[refunds])
async def orders(task: str) -> str:
    return await step(refunds, task=task)
