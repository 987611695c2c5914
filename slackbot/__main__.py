"""The command `signoff`, as `python -m slackbot`."""

from slackbot.cli import main

main()
