"""Outgoing Slack calls."""
