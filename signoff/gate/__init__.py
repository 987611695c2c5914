"""The commands `signoff gate` and `signoff mcp`: what CI jobs, scripts and coding agents need of Signoff."""
