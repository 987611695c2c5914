"""The agent whose tools report their starts, loaded like any agent (`SIGNOFF_AGENTS`)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any

from agent.domain import checkpoints
from agent.runtime.agents import Agent
from agent.runtime.tool import tool

MARKS = "BENCH_MARKS"
"""Names the datagram socket for starts in another process."""

CHECKPOINTS = """
[defaults]
channel = "C0REVIEW"

[[checkpoint]]
checkpoint_id = "payments"
action_pattern = "pay*"
approvers = ["S0FINANCE"]
timeout = "24h"
risk = "medium"
"""
POLICY = checkpoints.load(CHECKPOINTS, filename="checkpoints.toml")


Listener = Callable[[int, int], object]


def _told_to(path: str) -> Listener:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.connect(path)
    return lambda order, at: sender.send(f"{order} {at}".encode())


listener: Listener | None = _told_to(os.environ[MARKS]) if MARKS in os.environ else None
"""Receives the order's number, and nanoseconds of the machine's monotonic clock."""


def price(order_id: int) -> dict[str, Any]:
    return {"order_id": order_id, "cents": 4200}


def _pay(order_id: int) -> str:
    at = time.monotonic_ns()
    if listener is not None:
        listener(order_id, at)
    return f"paid order {order_id}"


@tool
def pay(order_id: int) -> str:
    """Pay an order."""
    return _pay(order_id)


@tool(facts=price)
def pay_priced(order_id: int) -> str:
    """Pay an order whose price people have seen; it is looked up again before the tool starts."""
    return _pay(order_id)


PAYMENTS = Agent("payments", "Pay orders.", [pay, pay_priced])
