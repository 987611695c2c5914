"""The collected writes of a transaction, in their order."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import TextClause

from agent.database.json_rows import json_rows

Row = Mapping[str, Any]
_Write = tuple[TextClause, Row | list[Row]]


class Writes:
    """Each member's order stays; rows for the same statement are joined."""

    def __init__(self) -> None:
        self._members: list[list[_Write]] = [[]]
        self._last: dict[TextClause, list[Row]] = {}

    def __bool__(self) -> bool:
        return bool(self._last or any(self._members))

    def add(self, statement: TextClause, parameters: Row) -> None:
        self._members[-1].append((statement, parameters))

    def add_rows(self, statement: TextClause, rows: Sequence[Row], *, last: bool) -> None:
        """Rows of ``last`` are sent last, in one statement."""
        if rows and last:
            self._last.setdefault(statement, []).extend(rows)
        elif rows:
            self._members[-1].append((statement, list(rows)))

    def next_member(self) -> None:
        self._members.append([])

    def statements(self) -> Iterator[tuple[TextClause, Row]]:
        for statement, values in [*_together(self._members), *self._last.items()]:
            if isinstance(values, list):
                yield statement, {"rows": json_rows(values), "many": len(values)}
            else:
                yield statement, values


def _together(members: Sequence[Sequence[_Write]]) -> list[_Write]:
    """Send a statement when it is next for every member that still has it, or when none is."""
    queues = [deque(each) for each in members if each]
    left = Counter(statement for each in queues for statement, _ in each)
    found: list[_Write] = []
    while queues:
        heads = Counter(each[0][0] for each in queues)
        statement = next((each for each in heads if heads[each] == left[each]), queues[0][0][0])
        taken = [each.popleft()[1] for each in queues if each[0][0] is statement]
        left[statement] -= len(taken)
        if rows := [row for values in taken if isinstance(values, list) for row in values]:
            found.append((statement, rows))
        found += [(statement, values) for values in taken if not isinstance(values, list)]
        queues = [each for each in queues if each]
    return found
