"""`signoff gate`, `signoff mcp` and `signoff hook`: for CI jobs, scripts and coding agents."""
