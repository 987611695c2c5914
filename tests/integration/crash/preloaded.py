"""What every life of `signoff serve` loads, loaded once: by the process that all of them are forked from.

Without it each life would spend half a second of a core on imports that happen late, and as much again on looking
through what its parent has loaded, before it freezes that (`slackbot.cli.service`).
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
