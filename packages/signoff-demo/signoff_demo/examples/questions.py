"""Agents that ask people for more than yes or no: for one of some options, and for a form."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from signoff import ask, function_agent


@function_agent(name="deployment")
async def deployment(task: str) -> str:
    """Asks in which region to deploy."""
    answer = await ask("Which region?", options=["Europe", "United States", "Asia"])
    return f"{task}: {answer.require()} it is"


class Order(BaseModel):
    """What to order."""

    item: str = Field(title="What do you need?", max_length=80)
    count: int = Field(title="How many?", ge=1, le=20)
    size: Literal["Small", "Medium", "Large"] = Field(title="Size")
    express: bool = Field(title="Express delivery?", description="It costs more, and comes tomorrow.")


@function_agent(name="supplies")
async def supplies(task: str) -> str:
    """Asks what to order, and reads the answer as its own type."""
    answer = await ask(f"What should be ordered for {task}?", form=Order)
    order = answer.require()
    speed = "express" if order.express else "standard"
    return f"Order noted: {order.count} × {order.item}, {order.size.lower()}, by {speed} delivery"
