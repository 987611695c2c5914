"""Every metric that the service can expose, without a service."""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY, Metric

import agent.metrics
import slackbot.slack.metrics
import slackbot.web.http.metrics
from agent.store.views import ServiceCounts
from slackbot.web.http.service_metrics import ProcessPart, ServiceMetrics

OF_A_PROCESS = (agent.metrics, slackbot.slack.metrics, slackbot.web.http.metrics)
"""Imported because they register metrics."""

_COUNTS = ServiceCounts(0, 0, 0.0, 0, 0, 0.0, 0, 0, 0, 0.0, 0, 0, 0, {}, {})


class _NoDatabase:
    def pools(self) -> list[Any]:
        return []


def families() -> list[Metric]:
    """Needs a running event loop."""
    figures = ServiceMetrics(_NoDatabase(), lambda: ProcessPart(False, True, True, 1.0, True), tuple)  # type: ignore[arg-type]
    of_process = [family for family in REGISTRY.collect() if family.name.startswith("signoff_")]
    return [*figures._families(_COUNTS), *of_process]
