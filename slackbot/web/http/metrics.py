"""All labels have low cardinality."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

HTTP_REQUESTS = Counter(
    "signoff_http_requests",
    "Answered HTTP requests, by method, route (the pattern, never the path) and status.",
    ["method", "route", "status"],
)
SERVER_ERRORS = Counter("signoff_http_server_errors", "Answers with a status of 500 or above.")
"""Without labels: a status of ``HTTP_REQUESTS`` appears with its first answers, which an increase does not count."""

CONNECTIONS_CLOSED = Counter(
    "signoff_http_connections_closed",
    "Connections closed before a request or response was read completely, by reason: head, body, unread (time), size, "
    "crowd.",
    ["because"],
)
CONNECTIONS = Gauge(
    "signoff_http_connections",
    "HTTP connections of this process: open, and most, which the limit of open files allows.",
    ["state"],
)
OPEN_CONNECTIONS, MOST_CONNECTIONS = CONNECTIONS.labels("open"), CONNECTIONS.labels("most")
ACCEPT_FAILURES = Counter(
    "signoff_http_accept_failures",
    "Connections that could not be accepted because open files or memory were used up.",
)
WAITS_CUT_SHORT = Counter(
    "signoff_http_waits_cut_short",
    "Waiting calls that were answered at once with the present state, because their key holds its share of the "
    "connections, or the service is stopping.",
)
