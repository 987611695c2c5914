"""The agent of the tour: it refunds small orders at once, larger ones after approval.

`process_refund` takes only the order number: the price comes from the shop's table, so a model that claims another
changes nothing. `checkpoints.toml` says which price needs people.
"""

from typing import Any

from signoff import Agent, NotDone, ToolContext, tool
from signoff_demo.examples import shop
from signoff_demo.examples.shop import Order


async def price_of(order_id: int) -> dict[str, Any]:
    """The order's facts for people and policy: from the shop, not from the model."""
    order = await _existing(order_id)
    if order.status == "REFUNDED":
        raise NotDone(f"order {order_id} has been refunded already; nothing more was done")
    return {"price": order.price, "customer": order.customer, "item": order.item}


@tool(read_only=True)
async def get_order_status(order_id: int) -> dict[str, Any]:
    """Check an order: what was bought, its price, and the status of the order or its refund.

    Args:
        order_id: The number of the order.
    """
    return _shown(await _existing(order_id))


@tool(read_only=True)
async def list_orders() -> list[dict[str, Any]]:
    """List all orders with their status."""
    return [_shown(order) for order in await shop.orders()]


async def hold_refund(order_id: int, ctx: ToolContext) -> None:
    """Mark an order as PENDING_REFUND once people are asked about its refund."""
    await shop.hold(order_id, ctx.idempotency_key)


async def take_refund_back(order_id: int, cause: str, ctx: ToolContext) -> None:
    """Free the order after an edit of the call; after any other refusal, mark its refund as rejected."""
    if cause == "edited":
        await shop.release(order_id, ctx.idempotency_key)
    else:
        await shop.reject(order_id, cause)


@tool(
    background=True,
    idempotent=True,
    facts=price_of,
    on_pending=hold_refund,
    on_refused=take_refund_back,
    pending_text=(
        "Because order {args.order_id} exceeds our cost threshold, the refund must undergo manual review. "
        "Please check the order's status later."
    ),
)
async def process_refund(order_id: int, ctx: ToolContext) -> str:
    """Refund an order in full.

    Args:
        order_id: The number of the order.
    """
    order = await _existing(order_id)
    if not await shop.refund(order_id, ctx.idempotency_key):
        raise NotDone(f"order {order_id} has been refunded already; nothing more was done")
    return f"The refund of {order.price} for order {order_id} ({order.item}, {order.customer}) has been made."


async def _existing(order_id: int) -> Order:
    order = await shop.find(order_id)
    if order is None:
        raise NotDone(f"there is no order {order_id}; please check the number")
    return order


def _shown(order: Order) -> dict[str, Any]:
    shown = {
        "order_id": order.order_id,
        "item": order.item,
        "customer": order.customer,
        "price": f"{order.price:.2f}",
        "status": order.status,
    }
    return shown if order.cause is None else {**shown, "cause": order.cause}


refunds = Agent(
    name="refunds",
    instructions=(
        "You help customers with their orders and refunds. Look orders up instead of guessing, never promise a "
        "refund that has not been made, and when a refund waits for review say so and offer to check later. "
        "A refused refund is final unless the customer asks for a new review."
    ),
    tools=[process_refund, get_order_status, list_orders],
)
