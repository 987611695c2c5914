"""Everything that is served over HTTP: the API, the inbox page, health and metrics.

It imports nothing here: a process without the role `web` serves health and metrics, and loads neither API nor pages.
"""
