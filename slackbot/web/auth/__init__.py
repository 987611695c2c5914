"""Sessions and forms of signed-in people."""
