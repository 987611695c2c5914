"""What a request shows of the policy that asked."""

from __future__ import annotations

from dataclasses import fields

import pytest

from agent.domain.request_view import RequestView
from agent.domain.rules import Rule
from signoff.values import Risk
from tests.unit.cards.conftest import make_view

STORED = {"approvers", "approvals_required", "checkpoint_id", "risk"}
"""Columns of the request: lists read them, and an escalation adds approvers."""


def test_a_view_carries_its_rule_and_copies_none_of_it() -> None:
    """A new policy key is shown through `rule`, so the view needs no field of its own."""
    assert {field.name for field in fields(RequestView)} & set(Rule.model_fields) == STORED


@pytest.mark.parametrize(("risk", "allowed"), [(Risk.HIGH, True), (Risk.CRITICAL, False)])
def test_no_view_of_a_critical_call_allows_a_grant(risk: Risk, allowed: bool) -> None:
    """Whatever its checkpoint says."""
    assert make_view(allow_grants=True, risk=risk).allow_grants is allowed
    assert not make_view(risk=risk).allow_grants
