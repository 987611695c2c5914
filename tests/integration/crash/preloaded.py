"""What each `signoff serve` imports, loaded once in the process from which all are forked.

Without it each start would spend half a second of a core on late imports, and as much again on scanning the parent's
objects before it freezes them (`slackbot.cli.service`).
"""

from __future__ import annotations

import gc
from importlib import import_module

MODULES = (
    "slackbot.app",
    "slackbot.cli.service",
    "agent.runtime.model_provider",
    "apscheduler.executors.asyncio",
    "apscheduler.triggers.interval",
    "cel",
    "httpcore2",
    "slack_bolt.listener_matcher.async_builtins",
    "truststore",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
    "tests.integration.crash.process",
)

for _name in MODULES:
    import_module(_name)
gc.collect()
gc.freeze()
