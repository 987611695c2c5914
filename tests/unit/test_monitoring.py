"""The dashboard and the alert rules in `deploy/monitoring`: PromQL that parses, about metrics that there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import REGISTRY

from tests.metric_families import families

MONITORING = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
BOARD: dict[str, Any] = json.loads((MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [
    (f"{panel['title']}: {target['refId']}", target["expr"])
    for panel in PANELS
    for target in panel["targets"]
]
EXPRESSIONS = [*QUERIES, *((rule["alert"], rule["expr"]) for rule in RULES)]
OF_PYTHON = {"process_resident_memory_bytes": {"instance", "job"}}
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
ADDED = {"instance", "job"}
"""Labels that Prometheus gives every sample."""


def series(expression: str) -> list[Any]:
    """Every selector of series in an expression; Grafana puts a time for its own variable."""
    return list(selectors(promql_parser.parse(expression.replace("$__rate_interval", "5m"))))


def selectors(node: Any) -> Iterator[Any]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("lhs", "rhs", "expr", "vector_selector", "param"):
        if (part := getattr(node, name, None)) is not None:
            yield from selectors(part)
    for part in getattr(node, "args", None) or []:
        yield from selectors(part)


def samples() -> dict[str, set[str]]:
    """The name of each sample of a scrape, with the labels that it can have."""
    found = dict(OF_PYTHON)
    for family in families():
        labels = set(getattr(family, "_labelnames", ())) | {
            name for each in family.samples for name in each.labels
        }
        collector = REGISTRY._names_to_collectors.get(family.name)
        labels |= set(getattr(collector, "_labelnames", ()))
        for suffix in SUFFIXES[family.type]:
            found[family.name + suffix] = labels | ADDED | ({"le"} if suffix == "_bucket" else set())
    return found


@pytest.mark.parametrize(("name", "expression"), EXPRESSIONS, ids=[name for name, _ in EXPRESSIONS])
async def test_every_expression_is_about_what_there_is(name: str, expression: str) -> None:
    """It parses, and each metric and label in it is one that a scrape has: a misspelt one would never speak."""
    found = series(expression)
    known = samples()
    assert found
    for selector in found:
        assert selector.name in known, selector.name
        assert {each.name for each in selector.matchers.matchers} <= known[selector.name]


async def test_every_value_that_is_watched_for_is_there_from_the_start() -> None:
    """A counter begins with 0 for every outcome: the first increase of one that appears with 1 would be missed."""
    for _, expression in EXPRESSIONS:
        for selector in series(expression):
            exact = {each.name: each.value for each in selector.matchers.matchers if each.name == "outcome"}
            assert not exact or REGISTRY.get_sample_value(selector.name, exact) is not None, (
                selector.name,
                exact,
            )


async def test_no_first_increase_is_missed() -> None:
    """Each counter of a rule is there with 0 before anything is counted: one that appears with 12 has not increased."""
    there = {sample.name for family in families() for sample in family.samples}
    for rule in RULES:
        for selector in series(rule["expr"]):
            assert not selector.name.endswith("_total") or selector.name in there, selector.name


async def test_every_metric_is_watched() -> None:
    """By a rule, or by a panel of the dashboard."""
    watched = {each.name for _, expression in EXPRESSIONS for each in series(expression)}
    assert {name for name in samples() if not name.endswith(("_sum", "_count"))} <= watched


def test_every_rule_says_what_to_do() -> None:
    """One name each, how bad it is, what happened, and what then."""
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical"), rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")


def test_panels_lie_side_by_side() -> None:
    """Each panel has a number of its own and room of its own, and asks the chosen Prometheus about the chosen jobs."""
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for one, other in combinations((panel["gridPos"] for panel in BOARD["panels"]), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    for panel in PANELS:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert target["expr"].count('job=~"$job"') == len(series(target["expr"]))
