"""The Slack front end of Signoff; knows the agent package, never the other way round."""
