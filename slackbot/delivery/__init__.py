"""Messages to Slack: the poller finds due channels, a drain empties one."""
