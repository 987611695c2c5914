"""Agents to try Signoff with, and their own small tables."""
