"""Sessions and forms of people who are signed in."""
