"""Telling Slack what the database says: the poller finds channels, a drain empties one."""
