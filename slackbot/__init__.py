"""The Slack front end of Signoff. It imports the agent package, never the reverse."""
