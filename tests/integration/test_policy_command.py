"""`signoff policy`: apply, back, show, history."""

from __future__ import annotations

from pathlib import Path

from tests.integration.command import CHECKPOINTS, Command

STRICTER = CHECKPOINTS + "approvals_required = 2\n"


def test_a_file_is_applied_shown_and_taken_back(signoff: Command, tmp_path: Path) -> None:
    """`apply` puts a file in force under a number, once; `show` prints it, `back` brings back what was before."""
    stricter = tmp_path / "stricter.toml"
    stricter.write_text(STRICTER)
    offline = {"SLACK_BOT_TOKEN": None}
    assert (
        "policy 1 is in force: 0 checkpoints"
        in signoff("policy", "apply", "checkpoints.toml", **offline).said
    )
    assert "policy 2 is in force" in signoff("policy", "apply", str(stricter), **offline).said
    assert "was in force already" in signoff("policy", "apply", str(stricter), **offline).said
    assert signoff("policy", "show").said == STRICTER
    assert signoff("policy", "show", "1").said == CHECKPOINTS
    assert "policy 3 is in force, which brings back policy 1" in signoff("policy", "back", **offline).said
    assert signoff("policy", "show").said == CHECKPOINTS
    listed = signoff("policy", "history").said
    assert all(f"│ {number} " in listed for number in (1, 2, 3))
    assert signoff.is_wrong("policy", "back", **offline) == ["signoff: there is no earlier policy"]
    assert signoff.is_wrong("policy", "show", "9") == ["signoff: there is no policy 9"]


def test_a_file_with_a_mistake_changes_nothing(signoff: Command, tmp_path: Path) -> None:
    """It is refused with its line, as is one without a channel, and mail that cannot be sent; Slack may be away.

    The lines need no database.
    """
    said = signoff("policy", "apply", "checkpoints.toml").said
    assert "Slack cannot be reached" in said
    assert "policy 1 is in force" in said
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(CHECKPOINTS + 'aprovers = ["channel"]\nemail = ["a@example.com"]\n')
    lines = signoff.is_wrong("policy", "apply", str(wrong), DATABASE_URL=None)
    assert lines[0].startswith('signoff: wrong.toml:5: [defaults]: unknown key "aprovers"')
    assert "cannot be enforced: set SIGNOFF_SMTP_URL" in lines[1]
    (no_channel,) = signoff.is_wrong("policy", "apply", "checkpoints.toml", SIGNOFF_CHANNEL=None)
    assert "no channel for requests" in no_channel
    assert signoff("policy", "show").said == CHECKPOINTS
