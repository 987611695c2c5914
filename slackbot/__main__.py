"""`python -m slackbot` is the command `signoff`."""

from slackbot.cli import main

main()
