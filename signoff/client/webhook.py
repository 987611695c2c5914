"""Is a webhook's body from Signoff?"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Mapping

_SECONDS = re.compile(r"[0-9]{1,12}\Z")

FRESH = 300.0
"""Seconds that a signature is valid, to limit replays."""


def is_from_signoff(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether this raw body was signed with the webhook's secret within the last five minutes."""
    given = {name.lower(): value for name, value in headers.items()}
    timestamp, signature = given.get("signoff-timestamp", ""), given.get("signoff-signature", "")
    if not _SECONDS.match(timestamp) or abs(time.time() - int(timestamp)) >= FRESH:
        return False
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return bool(secret) and hmac.compare_digest(f"v1={signed}".encode(), signature.encode())
