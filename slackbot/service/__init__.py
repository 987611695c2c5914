"""The service process."""
