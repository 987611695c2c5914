"""PostgreSQL itself: connection pools, transactions, errors, migrations, the embedded server."""
