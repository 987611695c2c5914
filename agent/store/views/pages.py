"""Where a page of requests begins: behind the last row of the page before."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Tuple, Uuid, bindparam, select, tuple_

from agent.store.tables import approval_request


def last_position(time: Column[Any]) -> Tuple:
    """The time and the id of the request ``:after``, to be compared with those columns of an index."""
    last = approval_request.alias("last")
    its_time = select(last.c[time.name]).where(last.c.id == bindparam("after")).scalar_subquery()
    return tuple_(its_time, bindparam("after", type_=Uuid))
