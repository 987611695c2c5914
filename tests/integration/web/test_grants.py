"""A grant from its card to its end: given in Slack, used by a program, revoked with one click."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agent.domain.checkpoints import load
from agent.domain.errors import OutdatedPolicy
from agent.store import policy as stored_policies
from agent.usecases import pause
from agent.usecases import policy as policies
from signoff_demo.actors import choose
from slackbot.cards import ACTION_ALLOW_SIMILAR, ACTION_REVOKE, ACTION_REVOKE_LISTED
from slackbot.cards.grant_form import INPUT, PREFIX
from slackbot.masking import views
from slackbot.masking.secret_finder import everything
from slackbot.reviewing.grants import NONE_HERE, POLICY_UNREADABLE
from tests.integration import older_cards
from tests.integration.asking import column
from tests.integration.web.conftest import GRACE, LINUS, Program, Street, shown
from tests.integration.web.test_executors import kind
from tests.integration.web.test_facts import billing, opened
from tests.integration.web.visiting import PUBLIC, Porch

TERMS = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]

[grants]
max_for = "24h"
max_uses = 20

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "refund"
allow_grants = true
grant_free = { order_id = "[0-9]+" }

[[limit]]
name = "refunds"
action_pattern = "refund"
of = "args.amount"
per = "all"
within = "24h"
max = 5000

[[limit]]
name = "mine"
action_pattern = "refund"
of = "count"
per = "requester"
within = "24h"
max = 40
then = "deny"
"""
GRANTS = '[grants]\nmax_for = "24h"\nmax_uses = 20\n'
WITHOUT_GRANTS = (
    TERMS.replace(GRANTS, "")
    .replace("allow_grants = true\n", "")
    .replace('grant_free = { order_id = "[0-9]+" }\n', "")
)
LIKE: dict[str, Any] = {"action": "refund", "arguments": {"order_id": "7", "amount": 100, "express": False}}


@pytest.fixture
def policy() -> str:
    return TERMS


@pytest.fixture
def settings() -> dict[str, str]:
    return {"SIGNOFF_PUBLIC_URL": PUBLIC}


def refund(**arguments: Any) -> dict[str, Any]:
    return LIKE | {"arguments": LIKE["arguments"] | arguments}


async def form_of(site: Street, card: Any) -> Any:
    assert (await choose(site.house.slack, "U0GRACE", card, ACTION_ALLOW_SIMILAR)).acked
    return site.house.slack.views("U0GRACE")[-1]


def filled(**values: Any) -> dict[str, Any]:
    return {f"{PREFIX}:{name.replace('__', ':')}/{INPUT}": value for name, value in values.items()}


async def test_a_grant_from_its_card_to_its_end(site: Street) -> None:
    """Allowed calls need nobody, others do; each use is in the thread; after a click everything is asked again."""
    program = await site.program()
    rejected = (await program.ask("r-0", **refund(order_id="3"))).json()
    await (await site.reviewer()).decides(rejected["id"], "rejected")
    await program.ask("r-1", **LIKE)
    card = await site.house.card(1)
    form = await form_of(site, card)
    grace = site.house.slack.person("U0GRACE")
    entered = filled(
        field__2="free", field__0="1 .. 500", uses="2", lasts="8h", sum_of="args.amount", sum="450"
    )
    answer = await grace.submit(form, entered)
    assert answer.error is None
    preview = site.house.slack.views("U0GRACE")[-1]
    assert "Of 1 decided call of this tool 1 matches: 0 approved, 1 rejected." in str(preview)
    assert await column(site.db, "SELECT count(*) FROM vote WHERE verdict = 'approve'") == [0]
    assert (await grace.submit(preview)).error is None
    assert site.house.slack.views("U0GRACE") == []
    assert (await program.get("/pending/r-1")).json()["status"] == "approved"
    [grant_id] = await column(site.db, "SELECT request_id FROM approval_grant")
    allowed = await program.ask("r-2", **refund(order_id="12", amount=400))
    assert (allowed.status_code, allowed.json()["status"], allowed.json()["grant"]) == (
        200,
        "not_required",
        str(grant_id),
    )
    assert (await program.ask("r-2", **refund(order_id="12", amount=400))).json() == allowed.json()
    judged = "SELECT verdict FROM judgement WHERE grant_id = :id AND action IS NOT NULL"
    assert await column(site.db, judged, id=grant_id) == ["ask"]
    for name, other in (("r-3", {"amount": 51}), ("r-4", {"amount": 501}), ("r-5", {"express": True})):
        assert (await program.ask(name, **refund(**other))).status_code == 201
    second = await site.house.card(2)
    slack = site.house.slack
    assert await slack.wait_for(lambda: "1 of 2 times, 400 of 450 in total" in shown(site.house.now(second)))
    listed = await grace.command("/approvals", "grants", "C0REVIEW")
    assert await slack.wait_for(lambda: "used 1 of 2 times" in str((listed, slack.ephemeral("U0GRACE"))))
    assert (await grace.click(second, ACTION_REVOKE)).acked
    none = await grace.command("/approvals", "grants", "C0REVIEW")
    assert await slack.wait_for(lambda: "There are no grants" in str((none, slack.ephemeral("U0GRACE"))))
    assert (await program.ask("r-6", **refund(order_id="8"))).status_code == 201
    assert (await program.ask("r-2", **refund(order_id="12", amount=400))).json() == allowed.json()
    events = [event for _, event, _ in await site.events(f"request:{grant_id}")]
    assert events == ["request.opened", "vote.cast", "request.decided", "grant.used", "grant.ended"]


@pytest.mark.parametrize(
    ("values", "block", "words"),
    [
        ({"lasts": "25h"}, "lasts", "at most 24 hours"),
        ({"lasts": "soon"}, "lasts", "must be a time"),
        ({"uses": "21"}, "uses", "1 to 20 times"),
        ({"uses": "x"}, "uses", "whole number"),
        ({"field__0": "101"}, "field:0", "range such as"),
        ({"field__0": "9 .. 1"}, "field:0", "must not be greater"),
        ({"sum": "5"}, "sum", "needs a number"),
    ],
)
async def test_what_is_beyond_the_policy_is_said_at_its_input(
    site: Street, values: dict[str, Any], block: str, words: str
) -> None:
    """Nothing is clamped and nothing counts: the form stays open with what was typed."""
    program = await site.program()
    await program.ask("r-1", **LIKE)
    form = await form_of(site, await site.house.card())
    answer = await site.house.slack.person("U0GRACE").submit(form, filled(**values))
    assert words in answer.errors[f"{PREFIX}:{block}"]
    assert await column(site.db, "SELECT count(*) FROM vote") == [0]


@pytest.mark.parametrize(
    "hidden", [refund(api_token="xoxb-1234567890-abcdef"), LIKE | {"facts": {"api_token": "xoxb-1234567890"}}]
)
async def test_a_call_with_something_hidden_has_no_form(site: Street, hidden: dict[str, Any]) -> None:
    """Nobody allows in advance what they cannot read; they can still approve this one."""
    program = await billing(site)
    await program.ask("r-1", **hidden)
    await older_cards.press(site.house.slack, "U0GRACE", await site.house.card(), ACTION_ALLOW_SIMILAR)
    assert site.house.slack.views("U0GRACE") == []
    slack = site.house.slack
    assert await slack.wait_for(lambda: "Part of this call is hidden" in str(slack.ephemeral("U0GRACE")))


@pytest.mark.parametrize("filled_in", [False, True])
async def test_a_policy_without_grants_takes_no_form_that_is_open(site: Street, filled_in: bool) -> None:
    """Neither step of an open form counts, nor is the approval said to count; no form opens any more."""
    slack, grace = site.house.slack, site.house.slack.person("U0GRACE")
    await (await site.program()).ask("r-1", **LIKE)
    card = await site.house.card()
    form = await form_of(site, card)
    if filled_in:
        await grace.submit(form)
        form = slack.views("U0GRACE")[-1]
    await _put_in_force(site, WITHOUT_GRANTS)
    await grace.submit(form)
    still_open = slack.views("U0GRACE")
    assert NONE_HERE in str(still_open[-1])
    assert "counts" not in str(still_open[-1])
    await older_cards.press(slack, "U0GRACE", card, ACTION_ALLOW_SIMILAR)
    assert await slack.wait_for(lambda: NONE_HERE in str(slack.ephemeral("U0GRACE")))
    assert slack.views("U0GRACE") == still_open
    assert await column(site.db, "SELECT count(*) FROM vote") == [0]


@pytest.mark.parametrize("filled_in", [False, True])
async def test_a_policy_that_cannot_be_read_takes_no_form(site: Street, filled_in: bool) -> None:
    """Both steps of an open form, and the button, say that this process cannot read the policy; nothing counts."""
    slack, grace = site.house.slack, site.house.slack.person("U0GRACE")
    await (await site.program()).ask("r-1", **LIKE)
    card = await site.house.card()
    form = await form_of(site, card)
    if filled_in:
        await grace.submit(form)
        form = slack.views("U0GRACE")[-1]
    async with site.db.transaction() as tx:
        stored_policies.insert(
            tx, 2, "of_a_newer_version = true", b"\2" * 32, "cli:ada", None, datetime.now(UTC)
        )
    with pytest.raises(OutdatedPolicy):
        await site.service._policies.load()
    await grace.submit(form)
    modal = slack.views("U0GRACE")[-1]
    assert POLICY_UNREADABLE in str(modal)
    await older_cards.press(slack, "U0GRACE", card, ACTION_ALLOW_SIMILAR)
    assert await slack.wait_for(lambda: POLICY_UNREADABLE in str(slack.ephemeral("U0GRACE")))
    assert await column(site.db, "SELECT count(*) FROM vote") == [0]


@pytest.mark.parametrize("policy", [TERMS.replace("allow_grants", "approvals_required = 2\nallow_grants")])
async def test_a_grant_that_is_refused_after_its_approval_says_what_counts(site: Street) -> None:
    """A second grant from one card, on other terms: the approval counts, and the heading is about the grant."""
    await (await site.program()).ask("r-1", **LIKE)
    slack, grace = site.house.slack, site.house.slack.person("U0GRACE")
    for uses in ("10", "3"):
        form = await form_of(site, await site.house.card())
        await grace.submit(form, filled(uses=uses))
        await grace.submit(slack.views("U0GRACE")[-1])
    modal = slack.views("U0GRACE")[-1]
    assert modal["title"]["text"] == "No grant was given"
    assert "Your approval of this request counts" in str(modal)


async def test_a_question_that_was_not_scanned_in_time_is_asked(
    site: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody could look through for secrets is no use of a grant that would cover it."""
    program = await _granted(site, await site.program())
    with monkeypatch.context() as late:
        late.setattr(views, "SecretFinder", lambda *_args, **_more: everything)
        assert (await program.ask("r-2", **LIKE)).status_code == 201
    assert (await program.ask("r-3", **LIKE)).json()["status"] == "not_required"


@pytest.mark.parametrize(
    "policy", [TERMS.replace("allow_grants", 'rejected_holds = "1h"\nrejected_again = "show"\nallow_grants')]
)
async def test_a_question_that_was_rejected_lately_is_asked(site: Street) -> None:
    """A rejection of the agent's very same action through another key outweighs a grant that would cover it."""
    other = await site.program("other")
    rejected = await opened(await other.ask("o-1", **refund(order_id="8"), agent="shop"))
    await (await site.reviewer()).decides(rejected["id"], "rejected")
    program = await _granted(site, await site.program(), field__2="free", agent="shop")
    again = await opened(await program.ask("r-2", **refund(order_id="8"), agent="shop"))
    assert again["status"] == "waiting"
    covered = await program.ask("r-3", **refund(order_id="9"), agent="shop")
    assert covered.json()["status"] == "not_required"


async def test_a_removed_reviewer_ends_what_they_allowed(site: Street) -> None:
    """The next question finds that who gave the grant reviews no more; it stays ended when they come back."""
    program = await _granted(site, await site.program())
    assert (await program.ask("r-2", **LIKE)).json()["status"] == "not_required"
    connected = site.service.slack.connection()
    assert connected is not None
    for name, reviewers in (("r-3", ["U0LINUS"]), ("r-4", ["U0GRACE", "U0LINUS"])):
        site.house.slack.workspace.change_usergroup("S0FINANCE", reviewers)
        connected.directory.forget("S0FINANCE")  # a minute later
        assert (await program.ask(name, **LIKE)).json()["status"] == "waiting"
    because = await column(site.db, "SELECT ended_because FROM approval_grant")
    assert because == ["somebody who gave it is no longer a reviewer"]


async def test_a_question_that_a_grant_covered_does_not_begin_while_paused(site: Street) -> None:
    """A program that repeats it is told that its agent is paused, as for every action that needs nobody."""
    program = await _granted(site, await site.program())
    covered = (await program.ask("r-2", **LIKE)).json()
    assert covered["status"] == "not_required"
    await pause.pause(site.db, "crm", by=GRACE)
    assert kind(await program.ask("r-2", **LIKE)) == (409, "paused")
    assert (await program.ask("r-3", **LIKE)).status_code == 201
    await pause.resume(site.db, "crm", by=GRACE)
    assert (await program.ask("r-2", **LIKE)).json() == covered


@pytest.mark.parametrize("terms", [WITHOUT_GRANTS, WITHOUT_GRANTS + GRANTS])
async def test_a_policy_without_grants_lets_no_earlier_use_be_repeated(site: Street, terms: str) -> None:
    """A question that a grant covered is asked when the program repeats it, whatever the earlier answer was."""
    program = await _granted(site, await site.program())
    covered = await program.ask("r-2", **LIKE)
    assert covered.json()["status"] == "not_required"
    await _put_in_force(site, terms)
    again = await program.ask("r-2", **LIKE)
    assert (again.status_code, again.json()["status"]) == (201, "waiting")
    assert (await program.get("/pending/r-2")).json()["status"] == "waiting"


async def test_whoever_may_not_approve_gets_no_form_of_a_grant(site: Street) -> None:
    """The requester's button opens nothing and says why, and nothing is recorded."""
    slack = site.house.slack
    asked = await opened(await (await site.program()).ask("r-1", **LIKE))
    await older_cards.press(slack, "U0ADA", await site.house.card(), ACTION_ALLOW_SIMILAR)
    assert await slack.wait_for(lambda: "You are not among the reviewers" in str(slack.ephemeral("U0ADA")))
    assert slack.views("U0ADA") == []
    assert [event for _, event, _ in await site.events(f"request:{asked['id']}")] == ["request.opened"]


@pytest.mark.parametrize("filled_in", [False, True])
async def test_a_removed_reviewer_gets_no_further_step_of_a_grant(site: Street, filled_in: bool) -> None:
    """Both steps of their open form are refused alike: they see no preview, and no approval or grant counts."""
    slack, grace = site.house.slack, site.house.slack.person("U0GRACE")
    asked = await opened(await (await site.program()).ask("r-1", **LIKE))
    form = await form_of(site, await site.house.card())
    if filled_in:
        await grace.submit(form)
        form = slack.views("U0GRACE")[-1]
    connected = site.service.slack.connection()
    assert connected is not None
    slack.workspace.change_usergroup("S0FINANCE", ["U0LINUS"])
    connected.directory.forget("S0FINANCE")  # a minute later
    await grace.submit(form)
    modal = slack.views("U0GRACE")[-1]
    assert "Not recorded" in str(modal)
    assert "You are not among the reviewers" in str(modal)
    events = [event for _, event, _ in await site.events(f"request:{asked['id']}")]
    assert events == ["request.opened", *["vote.refused"] * filled_in]
    assert await column(site.db, "SELECT count(*) FROM approval_grant") == [0]


@pytest.mark.parametrize("policy", [TERMS.replace("allow_grants", "approvals_required = 2\nallow_grants")])
async def test_the_question_of_a_grant_says_for_whom_everywhere(site: Street) -> None:
    """On its card, in App Home, in the inbox and on its page, which shows its uses and its end, too."""
    slack, people = site.house.slack, Porch(site.house, site.service)
    program = await site.program()
    await program.ask("r-1", **LIKE)
    grace, linus = slack.person("U0GRACE"), slack.person("U0LINUS")
    await grace.submit(await form_of(site, await site.house.card()))
    assert "Up to 10 times within 8h, for the same requester only" in str(slack.views("U0GRACE")[-1])
    await grace.submit(slack.views("U0GRACE")[-1])
    card = await site.house.card(1)
    linus.open_home()
    home = await slack.wait_for(lambda: _says(slack.home("U0LINUS"), "Allow similar calls"))
    for shown_there, whom in ((card["blocks"], "for <@U0ADA>"), (home, "'user_id': 'U0ADA'")):
        assert whom in str(shown_there)
        assert "nobody in Slack" not in str(shown_there)
    visitor = await people.visitor("U0LINUS")
    await visitor.open("/inbox")
    assert "on behalf of @ada (Ada Lovelace) through" in visitor.words
    [grant_id] = await column(site.db, "SELECT request_id FROM approval_grant")
    await visitor.open(f"/inbox/requests/{grant_id}")
    assert "on behalf of @ada" in visitor.words
    assert "nobody in Slack" not in visitor.words
    for name in ("r-1", str(grant_id)):
        await (await site.reviewer(LINUS, "linus")).decides(name)
    assert (await program.ask("r-2", **LIKE)).json()["status"] == "not_required"
    await visitor.open(f"/inbox/requests/{grant_id}")
    assert "Used 1 of 10 times; ends" in visitor.words
    assert "not begun" not in visitor.words
    assert (await visitor.send(f"/inbox/grants/{grant_id}/revoke")).status_code == 303
    await visitor.open(f"/inbox/requests/{grant_id}")
    assert "Grant ended by @linus: revoked. It was used 1 of 10 times." in visitor.words
    assert "The key crm made a call that it allows" in visitor.words
    assert "@linus (Linus Pauling) ended it: revoked on this page" in visitor.words


async def test_home_and_page_show_what_is_allowed_and_used(site: Street) -> None:
    """Who may revoke a grant finds it with its uses left, and ends it; everybody finds limits and their own use."""
    slack, people = site.house.slack, Porch(site.house, site.service)
    program = await site.program()
    await program.ask("r-1", **LIKE)
    grace, ada = slack.person("U0GRACE"), slack.person("U0ADA")
    await grace.submit(await form_of(site, await site.house.card()))
    await grace.submit(slack.views("U0GRACE")[-1])
    assert (await program.ask("r-2", **LIKE)).json()["status"] == "not_required"
    for person in (grace, ada):
        person.open_home()
    total = "refunds: 100 of 5,000 used in 24h, 100 waiting. Beyond it, people are asked."
    own = "mine for you: 0 of 40 calls used in 24h. Beyond it, calls are denied."
    home = await slack.wait_for(lambda: _says(slack.home("U0GRACE"), "used 1 of 10 times", total, own))
    assert home
    hers = "mine for you: 1 of 40 calls used in 24h, 1 waiting. Beyond it, calls are denied."
    assert await slack.wait_for(lambda: _says(slack.home("U0ADA"), total, hers))
    listed = await ada.command("/approvals", "limits", "C0REVIEW")
    assert await slack.wait_for(lambda: _says((listed.response, slack.ephemeral("U0ADA")), total, hers))

    site.service._metrics._read_at = float("-inf")
    figures = (await program.get("/metrics")).text
    assert "signoff_grants_live 1.0" in figures
    assert 'signoff_limit_used_ratio{limit="refunds"} 0.02' in figures
    visitor = await people.visitor("U0GRACE")
    await visitor.open("/inbox/grants")
    assert "Used 1 of 10 times" in visitor.words
    assert total in visitor.words
    [grant_id] = await column(site.db, "SELECT request_id FROM approval_grant")
    assert (await visitor.send("/inbox/grants/nonsense/revoke")).status_code == 404
    await grace.click(home, ACTION_REVOKE_LISTED)
    assert await slack.wait_for(lambda: "Grants" not in str(slack.home("U0GRACE")))
    await visitor.open("/inbox/grants")
    assert "There are no grants that you may revoke." in visitor.words
    await program.ask("r-3", **LIKE)
    await grace.submit(await form_of(site, await site.house.card(2)))
    await grace.submit(slack.views("U0GRACE")[-1])
    await visitor.open("/inbox/grants")
    [second] = await column(site.db, "SELECT request_id FROM approval_grant WHERE ended_at IS NULL")
    assert (await visitor.send(f"/inbox/grants/{second}/revoke")).status_code == 303
    paths = [
        (event, detail["path"])
        for _, event, detail in await site.events(f"request:{grant_id}")
        if event == "grant.ended"
    ]
    assert paths == [("grant.ended", "slack_home")]
    assert ("grant.ended", "page") in [
        (e, d.get("path")) for _, e, d in await site.events(f"request:{second}")
    ]


async def _granted(site: Street, program: Program, agent: str | None = None, **entered: Any) -> Program:
    """The program, when a reviewer has allowed calls like its own."""
    grace = site.house.slack.person("U0GRACE")
    asked = await opened(await program.ask("r-1", **LIKE, agent=agent))
    assert asked["status"] == "waiting"
    [before] = await column(site.db, "SELECT count(*) - 1 FROM approval_request")
    await grace.submit(await form_of(site, await site.house.card(before)), filled(**entered))
    await grace.submit(site.house.slack.views("U0GRACE")[-1])
    return program


async def _put_in_force(site: Street, terms: str) -> None:
    """Apply this policy, and have the service load it."""
    await policies.apply(site.db, load(terms, filename="checkpoints.toml"), by="cli:ada")
    await site.service._policies.load()


def _says(view: Any, *words: str) -> Any:
    return view if all(each in str(view) for each in words) else None
