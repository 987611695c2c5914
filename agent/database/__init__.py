"""PostgreSQL itself."""
