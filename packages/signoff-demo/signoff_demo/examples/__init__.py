"""Example agents, and their own small tables."""
