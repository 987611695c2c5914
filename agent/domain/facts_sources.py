"""`[[facts]]`: where Signoff looks up the facts of programs' actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent.domain.webhook_urls import check_url, networks
from signoff.values import ACTION_NAME

TABLE = "facts"
KEYS = ("tool", "url")

_ANYWHERE = networks("0.0.0.0/0, ::/0")

Problem = Callable[[int, str | None, str], None]
"""Gets the table's index, the key (None: the table), and the problem."""


@dataclass(frozen=True, slots=True)
class FactsLookup:
    tool: str
    url: str


def read_lookups(tables: Any, problem: Problem) -> tuple[FactsLookup, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        problem(0, None, "write [[facts]], with two brackets")
        return ()
    found: dict[str, FactsLookup] = {}
    for index, table in enumerate(tables):
        wrong = list(_problems(table))
        if not wrong and table["tool"] in found:
            wrong = [("tool", f'"tool" names {table["tool"]}, as an earlier table does')]
        for key, what in wrong:
            problem(index, key, what)
        if not wrong:
            found[table["tool"]] = FactsLookup(table["tool"], table["url"])
    return tuple(found.values())


def _problems(table: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    for key in table.keys() - set(KEYS):
        yield key, f'unknown key "{key}" (there are: {", ".join(KEYS)})'
    for key in KEYS:
        if key not in table:
            yield None, f'"{key}" is missing'
    tool, url = table.get("tool"), table.get("url")
    if "tool" in table and (not isinstance(tool, str) or ACTION_NAME.problem(tool)):
        yield "tool", '"tool" must be the name of one tool'
    if "url" in table:
        try:
            # Allowed networks are a setting; the resolved address is checked before each POST.
            check_url(url if isinstance(url, str) else "", _ANYWHERE)
        except ValueError as error:
            yield "url", f'"url" {error}'
