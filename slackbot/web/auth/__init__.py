"""People who are signed in: sessions and forms of our own pages."""
