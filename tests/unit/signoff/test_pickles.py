"""What the client raises and returns can be pickled: DBOS records it in its workflows."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from signoff.client import Approval
from signoff.errors import AlreadyClaimed, ApprovalExpired, CollaborationError


def test_a_pickle_is_read_as_it_was_written() -> None:
    """An error keeps its facts, an approval its fields."""
    claimed = pickle.loads(pickle.dumps(AlreadyClaimed(409, "claimed", "was claimed")))
    assert (type(claimed), claimed.kind, str(claimed)) == (AlreadyClaimed, "claimed", "was claimed")
    expired = pickle.loads(pickle.dumps(CollaborationError("expired", request_id="r")))
    assert (type(expired), expired.cause, str(expired)) == (ApprovalExpired, "expired", "expired (request r)")
    approval = Approval("approved", "deploy", {"env": "prod"}, "r-1", notes=("at night",))
    assert pickle.loads(pickle.dumps(approval)) == approval


def test_a_pickle_needs_nothing_but_the_package_signoff(tmp_path: Path) -> None:
    """It is read by a process that has a module called `agent` of its own."""
    (tmp_path / "agent.py").write_text("")
    pickled = pickle.dumps(CollaborationError("expired", request_id="r"))
    program = f"import pickle; print(type(pickle.loads({pickled!r})).__module__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "signoff.errors"
