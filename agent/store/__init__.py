"""The room with SQL: tables, writes, reads, sessions and the embedded server."""
