"""The refund agent's shop: one table in its own schema (`SIGNOFF_SHOP_URL`, else `DATABASE_URL`).

Every change is one conditional statement, so repeated and late calls do no harm.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, LiteralString

import psycopg
from psycopg.rows import class_row

from agent.database.address import Address

SCHEMA = "signoff_shop"


@dataclass(frozen=True, slots=True)
class Order:
    """`status` is PAID, PENDING_REFUND, REFUNDED or REFUND_REJECTED; `cause` says why rejected."""

    order_id: int
    customer: str
    item: str
    price: Decimal
    status: str
    cause: str | None


_ORDERS = (
    (1, "Anna Fischer", "Desk lamp", "49.90"),
    (2, "Ben Okafor", "Office chair", "389.00"),
    (3, "Chen Wei", "Monitor, 27 inch", "640.00"),
    (4, "Dana Kowalski", "Standing desk", "1000.00"),
    (5, "Elif Demir", "Laptop", "1899.00"),
    (6, "Farid Haddad", "Meeting table", "2450.00"),
    (7, "Greta Lindqvist", "Espresso machine", "1249.50"),
    (8, "Hugo Martins", "Server rack", "7320.00"),
    (9, "Ines Moreau", "Camera", "1120.00"),
    (10, "Jonas Berg", "Bicycle", "1640.00"),
)


async def setup(*, fresh: bool = False) -> None:
    """Create the table and its orders if missing; `fresh` resets every order to PAID."""
    async with _connect() as connection:
        await connection.execute(_CREATE)
        async with connection.cursor() as cursor:
            await cursor.executemany(_SEED_FRESH if fresh else _SEED, _ORDERS)


async def orders() -> list[Order]:
    """Return all orders of the shop, in the order of their numbers."""
    async with _connect() as connection, connection.cursor(row_factory=class_row(Order)) as cursor:
        await cursor.execute(_ALL)
        return await cursor.fetchall()


async def find(order_id: int) -> Order | None:
    """Return one order; None if there is none with this number."""
    async with _connect() as connection, connection.cursor(row_factory=class_row(Order)) as cursor:
        await cursor.execute(_ONE, [order_id])
        return await cursor.fetchone()


async def hold(order_id: int, key: str) -> None:
    """`key` identifies the refund."""
    await _change(_HOLD, order_id=order_id, key=key)


async def release(order_id: int, key: str) -> None:
    """This refund no longer waits: the order is PAID again."""
    await _change(_RELEASE, order_id=order_id, key=key)


async def reject(order_id: int, cause: str) -> None:
    """Mark an order's refund as rejected, and why; a refunded order stays as it is."""
    await _change(_REJECT, order_id=order_id, cause=cause)


async def refund(order_id: int, key: str) -> bool:
    """Refund once. True also if this key already did; False: another key did."""
    return await _change(_REFUND, order_id=order_id, key=key) == 1


@asynccontextmanager
async def closed() -> AsyncIterator[None]:
    """Block the table as if it were being altered, for `signoff demo --auto`."""
    async with _connect() as connection:
        await connection.execute("LOCK TABLE signoff_shop.orders IN ACCESS EXCLUSIVE MODE")
        yield


async def _change(statement: LiteralString, **parameters: Any) -> int:
    async with _connect() as connection:
        return (await connection.execute(statement, parameters)).rowcount


@asynccontextmanager
async def _connect() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    url = os.environ.get("SIGNOFF_SHOP_URL") or os.environ.get("DATABASE_URL") or ""
    conninfo = Address.read(url, schema=SCHEMA).conninfo("signoff shop")
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        yield connection


_CREATE = """
SELECT pg_advisory_xact_lock(hashtext('signoff_shop'));
CREATE SCHEMA IF NOT EXISTS signoff_shop;
CREATE TABLE IF NOT EXISTS signoff_shop.orders (
    order_id integer PRIMARY KEY,
    customer text NOT NULL,
    item text NOT NULL,
    price numeric(12, 2) NOT NULL CHECK (price >= 0),
    status text NOT NULL DEFAULT 'PAID'
        CHECK (status IN ('PAID', 'PENDING_REFUND', 'REFUNDED', 'REFUND_REJECTED')),
    cause text,
    refund_key text
);
ALTER TABLE signoff_shop.orders ADD COLUMN IF NOT EXISTS held_by text;
"""
_SEED = """
INSERT INTO signoff_shop.orders (order_id, customer, item, price) VALUES (%s, %s, %s, %s)
ON CONFLICT (order_id) DO NOTHING
"""
_SEED_FRESH = """
INSERT INTO signoff_shop.orders (order_id, customer, item, price) VALUES (%s, %s, %s, %s)
ON CONFLICT (order_id) DO UPDATE
SET customer = excluded.customer, item = excluded.item, price = excluded.price,
    status = 'PAID', cause = NULL, refund_key = NULL, held_by = NULL
"""
_ALL = "SELECT order_id, customer, item, price, status, cause FROM signoff_shop.orders ORDER BY order_id"
_ONE = "SELECT order_id, customer, item, price, status, cause FROM signoff_shop.orders WHERE order_id = %s"
_HOLD = """
UPDATE signoff_shop.orders SET status = 'PENDING_REFUND', cause = NULL, held_by = %(key)s
WHERE order_id = %(order_id)s AND status IN ('PAID', 'REFUND_REJECTED')
"""
_RELEASE = """
UPDATE signoff_shop.orders SET status = 'PAID', held_by = NULL
WHERE order_id = %(order_id)s AND status = 'PENDING_REFUND' AND held_by = %(key)s
"""
_REJECT = """
UPDATE signoff_shop.orders SET status = 'REFUND_REJECTED', cause = %(cause)s
WHERE order_id = %(order_id)s AND status IN ('PAID', 'PENDING_REFUND')
"""
_REFUND = """
UPDATE signoff_shop.orders SET status = 'REFUNDED', cause = NULL, refund_key = %(key)s
WHERE order_id = %(order_id)s
  AND (status IN ('PAID', 'PENDING_REFUND', 'REFUND_REJECTED')
       OR (status = 'REFUNDED' AND refund_key = %(key)s))
"""
