"""Statements that change facts, inside a caller's transaction; one module per noun."""
