"""Shared by all web routes."""
