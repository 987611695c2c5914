"""What all web routes stand on: context, keys, bodies, problems, idempotency, health, the server."""
