"""What earlier versions have pickled, in workflows of DBOS for example, can be read."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from signoff.client import Approval, AttemptOutcome
from signoff.errors import AlreadyClaimed, CollaborationError
from signoff.former_names import FORMER_NAMES

CLAIMED = (
    b"cagent.domain.errors\n_again\np0\n(cagent.client.errors\nAlreadyClaimed\np1\n(Vw\np2\ntp3\n(dp4\nVstatus\np5\n"
    b"I409\nsVkind\np6\nVclaimed\np7\nsVproblem\np8\n(dp9\nstp10\nRp11\n."
)
REJECTED = (
    b"cagent.domain.errors\n_again\np0\n(cagent.domain.errors\nCollaborationError\np1\n(Vrejected by U1 (request r)\np2"
    b"\ntp3\n(dp4\nVcause\np5\nVrejected\np6\nsVrequest_id\np7\nVr\np8\nsVreason\np9\nNsVreviewer\np10\nVU1\np11\nstp12\n"
    b"Rp13\n."
)
APPROVED = (
    b"ccopy_reg\n_reconstructor\np0\n(cagent.client.values\nDecision\np1\nc__builtin__\nobject\np2\nNtp3\nRp4\n(lp5\n"
    b"Vapproved\np6\naVdeploy\np7\na(dp8\nVenv\np9\nVprod\np10\nsaVr-1\np11\naI1\naI00\naNaNaNaNab."
)
ENDED = (
    b"ccopy_reg\n_reconstructor\np0\n(cagent.client.values\nEnding\np1\nc__builtin__\nobject\np2\nNtp3\nRp4\n(lp5\nI01\n"
    b"aVok\np6\nab."
)


def test_errors_of_earlier_versions_are_the_errors_of_this_one() -> None:
    """A workflow that recorded an error before an upgrade raises the same one after it."""
    claimed, rejected = pickle.loads(CLAIMED), pickle.loads(REJECTED)
    assert (type(claimed), claimed.kind, str(claimed)) == (AlreadyClaimed, "claimed", "w")
    assert (type(rejected), rejected.cause, rejected.reviewer) == (CollaborationError, "rejected", "U1")


def test_values_of_earlier_versions_are_the_values_of_this_one() -> None:
    """What a workflow was given or returned has another name today and is the same."""
    assert pickle.loads(APPROVED) == Approval("approved", "deploy", {"env": "prod"}, "r-1")
    assert pickle.loads(ENDED) == AttemptOutcome(True, "ok")


def test_a_pickle_of_today_needs_nothing_but_the_package_signoff(tmp_path: Path) -> None:
    """It is read by a process that has a module called `agent` of its own."""
    (tmp_path / "agent.py").write_text("")
    pickled = pickle.dumps(CollaborationError("expired", request_id="r"))
    program = f"import pickle; print(type(pickle.loads({pickled!r})).__module__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "signoff.errors"


@pytest.mark.parametrize("module", FORMER_NAMES)
def test_every_former_name_leads_to_something(module: str) -> None:
    """The list is true: each name in it is found under the module that it was in."""
    found = importlib.import_module(module)
    for name, (_, now) in FORMER_NAMES[module].items():
        assert getattr(found, name).__name__ == now
    with pytest.raises(AttributeError):
        _ = found.something_else
