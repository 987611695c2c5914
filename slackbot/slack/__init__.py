"""What comes in from Slack."""
