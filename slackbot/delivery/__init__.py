"""Deliver messages to Slack: the poller finds channels with due messages, a drain empties one channel."""
