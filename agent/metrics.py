"""What this process has done, counted for `/metrics`. Every label has few values, all of them ours.

Counted when its transaction is committed: one that is rolled back, and made again, counts once.
"""

from __future__ import annotations

from prometheus_client import Counter

DECISIONS = Counter(
    "signoff_decisions",
    "Requests that came to an outcome, by what it was; counted where it happened.",
    ["outcome"],
)
EXECUTIONS = Counter(
    "signoff_executions", "Attempts at executing an approved action that ended, by how.", ["outcome"]
)
