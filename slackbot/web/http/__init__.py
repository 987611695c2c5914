"""Shared by all web routes: context, keys, bodies, problems, idempotency, health, the server."""
