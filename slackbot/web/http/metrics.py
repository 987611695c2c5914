"""All labels have low cardinality."""

from __future__ import annotations

from prometheus_client import Counter

HTTP_REQUESTS = Counter(
    "signoff_http_requests",
    "Answered HTTP requests, by method, route (the pattern, never the path) and status.",
    ["method", "route", "status"],
)
CONNECTIONS_CLOSED = Counter(
    "signoff_http_connections_closed",
    "Connections closed before a request or response was read completely, by reason: head, body, unread (time), size, "
    "crowd.",
    ["because"],
)
