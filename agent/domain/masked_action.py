"""An action as people may see it, with the digest of the true one."""

from dataclasses import dataclass

from signoff.canonical import canonical_bytes
from signoff.errors import MalformedArguments
from signoff.masks import NOT_SCANNED, RedactedValue, Secret, is_unseen, sign
from signoff.values import Action


@dataclass(frozen=True)
class MaskedAction(Action):
    """`digest` is that of the action that would run."""

    true_digest: bytes = b""
    secrets: tuple[Secret, ...] = ()
    hidden: frozenset[str] = frozenset()
    """People cannot edit what they cannot read."""

    unseen: bool = False
    """There was no time to check a masked value: nobody can consent to that."""

    @property
    def digest(self) -> bytes:
        return self.true_digest


def masked_action(action: Action, redacted: RedactedValue, *, others_unseen: bool = False) -> Action:
    """`others_unseen`: values beside the action are unseen."""
    if not redacted.secrets and not others_unseen:
        return action
    shown, secrets = redacted.value, redacted.secrets
    unseen = others_unseen or is_unseen(redacted)
    hidden = frozenset(name for name, value in shown.items() if action.arguments.get(name) != value)
    try:
        return MaskedAction(action.tool, action.tool_version, shown, action.digest, secrets, hidden, unseen)
    except MalformedArguments:  # masks of thousands of short values can exceed the size limit
        whole = Secret("$", 0, len(canonical_bytes(dict(action.arguments)).decode()), NOT_SCANNED)
        shown, every = {"arguments": sign(whole.kind, whole.length)}, frozenset(action.arguments)
        return MaskedAction(
            action.tool, action.tool_version, shown, action.digest, (whole,), every, unseen=True
        )
