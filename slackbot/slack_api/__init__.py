"""Slack as we call it: the client, its pace and error codes, who is who, permalinks, the manifest."""
