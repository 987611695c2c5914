"""Who may act on a request or a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent.domain import eligibility
from agent.domain.errors import Refusal, Refused
from agent.domain.people import Exclusion, Involvement, Standing
from agent.domain.request import RequestStatus, Verdict
from agent.domain.rules import Rule
from signoff.values import Person

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TEAM, GROUP = "T1", "S0REVIEWERS"
ROLES = {
    "requester": Involvement.REQUESTER,
    "key owner": Involvement.KEY_OWNER,
    "instructor": Involvement.INSTRUCTOR,
    "adviser": Involvement.ADVISER,
    "first editor": Involvement.EDITOR,
    "last editor": Involvement.EDITOR,
    "earlier editor": Involvement.EARLIER_EDITOR,
}
STRICT = Rule(checkpoint_id="refunds", action_pattern="refund", on_reject="stop")
PEOPLE = {role: Person(TEAM, f"U{n}") for n, role in enumerate(ROLES)}
REVIEWER, STRANGER, GUEST = Person(TEAM, "UREVIEWER"), Person(TEAM, "USTRANGER"), Person(TEAM, "UGUEST")
INVOLVED = tuple(Exclusion(PEOPLE[role], why) for role, why in ROLES.items())
STANDINGS = {
    **{role: Standing(person, frozenset({GROUP})) for role, person in PEOPLE.items()},
    "reviewer": Standing(REVIEWER, frozenset({GROUP})),
    "stranger": Standing(STRANGER),
    "guest": Standing(GUEST, frozenset({GROUP}), Refusal.GUEST),
}


@dataclass(frozen=True)
class Request:
    """What a use case has locked, a view has read, or an execution in doubt came from."""

    excluded: tuple[Exclusion, ...] = eligibility.exclusions(INVOLVED, STRICT)
    approvers: tuple[str, ...] = (GROUP,)
    status: RequestStatus = RequestStatus.WAITING
    revision: int = 2
    allow_edit: bool = True
    expires_at: datetime = NOW + timedelta(hours=1)
    decided_at: datetime | None = None
    decided_by: Person | None = None
    approved_by: tuple[Person, ...] = ()
    asked: bool = True
    requester: Person | None = PEOPLE["requester"]
    channel_id: str = "C0REVIEW"


def act(name: str, request: Request, who: Standing, *, revision: int = 2) -> Refusal | None:
    """The refusal of this act, if any."""
    refused: Refused | Refusal | None
    match name:
        case "approve" | "reject":
            refused = eligibility.vote_refusal(request, who, Verdict(name), revision, NOW)
        case "edit":
            refused = eligibility.edit_refusal(request, who, revision, NOW)
        case "allow similar":
            refused = eligibility.reviewer_refusal(request, who, Verdict.APPROVE)
        case "settle" | "retry":
            refused = eligibility.settlement_refusal(request, who, retry=name == "retry")
        case "ask again":
            refused = eligibility.asking_again_refusal(request.requester, who)
        case "cancel":
            refused = eligibility.cancel_refusal(request.requester, [request], who, ())
        case _:
            refused = eligibility.resume_refusal(request.requester, who, administrator=False)
    return refused.code if isinstance(refused, Refused) else refused


SELF, TOLD, GUESTS = Refusal.SELF_REVIEW, Refusal.INSTRUCTED, Refusal.GUEST
ASK, RESUME = Refusal.NOT_YOURS_TO_ASK, Refusal.NOT_YOURS_TO_RESUME
ACTS = ("approve", "retry", "reject", "edit", "settle", "ask again", "cancel", "resume")
EARLIER = Refusal.EDITED_EARLIER
TABLE: dict[str, tuple[Refusal | None, ...]] = {
    "reviewer": (None, None, None, None, None, ASK, None, RESUME),
    "requester": (SELF, SELF, SELF, SELF, SELF, None, None, None),
    "key owner": (SELF, SELF, SELF, SELF, SELF, ASK, None, RESUME),
    "instructor": (TOLD, TOLD, TOLD, TOLD, TOLD, ASK, None, RESUME),
    "adviser": (Refusal.ADVISED, Refusal.ADVISED, None, None, None, ASK, None, RESUME),
    "first editor": (Refusal.EDITOR_ALONE, Refusal.EDITOR_ALONE, None, None, None, ASK, None, RESUME),
    "last editor": (Refusal.EDITOR_ALONE, Refusal.EDITOR_ALONE, None, None, None, ASK, None, RESUME),
    "earlier editor": (EARLIER, EARLIER, None, None, None, ASK, None, RESUME),
    "stranger": (*[Refusal.NOT_A_REVIEWER] * 5, ASK, Refusal.NOT_YOUR_RUN, RESUME),
    "guest": (GUESTS,) * 8,
}


@pytest.mark.parametrize("role", TABLE)
def test_every_role_and_act(role: str) -> None:
    """Each person may do exactly what the table says."""
    found = {name: act(name, Request(), STANDINGS[role]) for name in ACTS}
    assert found == dict(zip(ACTS, TABLE[role], strict=True))


DOCUMENTED = {
    "requester": "requester",
    "owner of the key": "key owner",
    "instructor": "instructor",
    "adviser": "adviser",
    "editor of this request": "last editor",
    "editor of an earlier one": "earlier editor",
}


def documented() -> list[tuple[str, dict[str, bool], str]]:
    """The table of `docs/policy-reviewers.md`: who, which acts are theirs, and the key that lifts the exclusion."""
    page = (Path(__file__).parents[3] / "docs" / "policy-reviewers.md").read_text(encoding="utf-8")
    lines = page.partition("## Who shaped it")[2].partition("\n## ")[0].splitlines()
    head, _, *rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    acts = head[2:-1]
    return [
        (row[0], dict(zip(acts, (cell == "yes" for cell in row[2:-1]), strict=True)), row[-1]) for row in rows
    ]


@pytest.mark.parametrize(("who", "may", "key"), documented())
def test_who_shaped_an_action_may_do_what_the_documentation_says(
    who: str, may: dict[str, bool], key: str
) -> None:
    """Each involvement and each act, and the one key of a checkpoint with which the exclusion does not apply."""
    role = DOCUMENTED[who]
    assert set(may) == {"approve", "reject", "edit", "retry", "settle", "allow similar"}
    assert {name: act(name, Request(), STANDINGS[role]) is None for name in may} == may
    name, _, value = key.strip("`").partition(" = ")
    lifted = STRICT.model_copy(update={name: value == "true"})
    for other, mine in DOCUMENTED.items():
        request = Request(excluded=eligibility.exclusions(INVOLVED, lifted))
        assert (act("approve", request, STANDINGS[mine]) is None) is (key == lifting_keys()[other])


def lifting_keys() -> dict[str, str]:
    return {who: key for who, _, key in documented()}


def test_the_documentation_names_each_involvement() -> None:
    """No way of shaping an action is left out of the table."""
    assert {ROLES[DOCUMENTED[who]] for who, _, _ in documented()} == set(Involvement)


def test_the_strongest_involvement_stays() -> None:
    """A person has one entry, and an edit or advice does not take the place of what excludes them from more."""
    ada = PEOPLE["requester"]
    involved = [Exclusion(ada, why) for why in reversed(Involvement)]
    found = eligibility.exclusions(involved, STRICT)
    assert found == (Exclusion(ada, Involvement.REQUESTER),)
    assert eligibility.with_editor(found, ada, editor_may_approve=False) == found


def test_every_editor_stays() -> None:
    """A second edit adds its editor, and the first one stays excluded; `editor_may_approve` adds nobody."""
    once = eligibility.with_editor((), REVIEWER, editor_may_approve=False)
    twice = eligibility.with_editor(once, STRANGER, editor_may_approve=False)
    assert [each.person for each in twice] == [REVIEWER, STRANGER]
    assert eligibility.with_editor((), REVIEWER, editor_may_approve=True) == ()


@pytest.mark.parametrize("name", ["approve", "reject", "edit"])
@pytest.mark.parametrize(
    ("changes", "revision", "refusal"),
    [
        ({"status": RequestStatus.CANCELLED}, 2, Refusal.WITHDRAWN),
        ({"status": RequestStatus.EXPIRED}, 2, Refusal.EXPIRED),
        (
            {"status": RequestStatus.REJECTED, "decided_at": NOW, "decided_by": STRANGER},
            2,
            Refusal.ALREADY_DECIDED,
        ),
        ({"expires_at": NOW}, 2, Refusal.EXPIRED),
        ({"approvers": ()}, 2, Refusal.NO_REVIEWERS),
        ({}, 1, Refusal.STALE_REVISION),
    ],
)
def test_ended_late_or_changed(
    name: str, changes: dict[str, object], revision: int, refusal: Refusal
) -> None:
    """No act of a reviewer counts on a request that has ended, is late, or is of another revision by now."""
    request = replace(Request(), **changes)  # type: ignore[arg-type]
    assert act(name, request, STANDINGS["reviewer"], revision=revision) is refusal


def test_edits_where_the_checkpoint_allows_none() -> None:
    """`allow_edit = false` refuses every edit."""
    assert act("edit", Request(allow_edit=False), STANDINGS["reviewer"]) is Refusal.EDIT_NOT_ALLOWED


def test_settling_what_nobody_was_asked_about() -> None:
    """The run's requester or an administrator settles it; reviewers do not."""
    doubt = Request(asked=False)
    assert act("settle", doubt, STANDINGS["requester"]) is None
    assert act("settle", doubt, STANDINGS["reviewer"]) is Refusal.NOT_YOURS_TO_SETTLE
    assert (
        eligibility.settlement_refusal(doubt, STANDINGS["stranger"], retry=True, administrator=True) is None
    )
    refused = eligibility.settlement_refusal(doubt, STANDINGS["guest"], retry=False, administrator=True)
    assert refused is Refusal.GUEST


def test_cancelling_as_a_member_of_the_channel() -> None:
    """Members of a request's own channel may cancel its run, members of another review channel may not."""
    request = Request(approvers=("channel",))
    member = Standing(STRANGER, frozenset({"channel"}))
    assert eligibility.cancel_refusal(None, [request], member, ["C0REVIEW"]) is None
    assert eligibility.cancel_refusal(None, [request], member, ["C0OTHER"]) is Refusal.NOT_YOUR_RUN


def test_resuming_as_an_administrator() -> None:
    """Administrators may resume the runs of others."""
    assert eligibility.resume_refusal(REVIEWER, STANDINGS["stranger"], administrator=True) is None
