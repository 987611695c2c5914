"""What comes in from Slack: signed HTTP, Socket Mode, App Home, listeners."""
