"""Slack as it calls us: Bolt, Socket Mode, signed HTTP, App Home and the listeners."""
