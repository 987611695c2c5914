"""The commands `signoff gate`, `signoff mcp` and `signoff hook`."""

import sys


def main() -> None:
    """The command of `signoff-client`."""
    from signoff.gate import unasked_calls  # noqa: PLC0415 - not for programs that import a module of this package

    if sys.argv[1:2] == ["hook"] and unasked_calls.answers_at_once(sys.argv[2:]):
        return
    from signoff.gate import command_line  # noqa: PLC0415 - slow to import

    command_line.main()
