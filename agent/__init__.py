"""What an agent needs to ask people before it acts; knows nothing of Slack."""
