"""The Slack front end. It imports the agent package, never the reverse."""
