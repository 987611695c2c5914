"""What goes out to Slack: one client, the directory of people, permalinks, the manifest."""
