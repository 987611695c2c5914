"""Who is at the page: a visitor with a session, and the state of a sign-in with Slack."""
