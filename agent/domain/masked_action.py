"""An action as people see it: secrets masked, but with the digest of what would run."""

from dataclasses import dataclass

from signoff.canonical import canonical_bytes
from signoff.errors import MalformedArguments
from signoff.masks import NOT_SCANNED, RedactedValue, Secret, is_unseen, sign
from signoff.values import Action


@dataclass(frozen=True)
class MaskedAction(Action):
    """An action as it is shown. Its arguments are masked; its digest is that of the action which would run."""

    true_digest: bytes = b""
    secrets: tuple[Secret, ...] = ()
    hidden: frozenset[str] = frozenset()
    """The arguments in which something is masked: what cannot be read cannot be edited either."""

    unseen: bool = False
    """Something is masked only because nobody had the time to look: nobody can consent to that."""

    @property
    def digest(self) -> bytes:
        """Of the action itself, so that it can be compared with what is stored."""
        return self.true_digest


def masked_action(action: Action, redacted: RedactedValue, *, others_unseen: bool = False) -> Action:
    """The action to show: the same one when nothing is masked, here or (`others_unseen`) beside it."""
    if not redacted.secrets and not others_unseen:
        return action
    shown, secrets = redacted.value, redacted.secrets
    unseen = others_unseen or is_unseen(redacted)
    hidden = frozenset(name for name, value in shown.items() if action.arguments.get(name) != value)
    try:
        return MaskedAction(action.tool, action.tool_version, shown, action.digest, secrets, hidden, unseen)
    except MalformedArguments:  # thousands of short values became longer than arguments may be
        whole = Secret("$", 0, len(canonical_bytes(dict(action.arguments)).decode()), NOT_SCANNED)
        shown, every = {"arguments": sign(whole.kind, whole.length)}, frozenset(action.arguments)
        return MaskedAction(
            action.tool, action.tool_version, shown, action.digest, (whole,), every, unseen=True
        )
