"""Ask people before an agent acts; independent of Slack."""
