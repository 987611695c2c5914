"""Outgoing Slack calls: one client, the directory of people, permalinks, the manifest."""
