"""Metrics of what comes in from Slack."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

CLICK_TO_ACK = Histogram(
    "signoff_click_to_ack_seconds",
    "Time from the arrival of a click, command or form to its acknowledgement; Slack waits for 3 s.",
    ["door"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 2.5, 3.0),
)
EVENTS_WITHHELD = Counter(
    "signoff_slack_events_withheld",
    "Notices from Slack that it drops events: mentions, replies and App Homes are missed.",
)
SOCKETS_REFUSED = Counter(
    "signoff_slack_sockets_refused",
    "Socket Mode connections that Slack closed at once: too_many_websockets, or short (after less than 5 s).",
    ["because"],
)
for _because in ("too_many_websockets", "short"):
    SOCKETS_REFUSED.labels(_because)
