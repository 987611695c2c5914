"""What all HTTP routes share: the server, limits of connections, problems, keys, health and metrics."""
