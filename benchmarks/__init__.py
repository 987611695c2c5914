"""Benchmarks against peers on one durable PostgreSQL: `python -m benchmarks`, or `make bench`.

Absolute times depend on the machine and its other load, so every row alternates short rounds with its peer's, and the
result is the ratio within one run. `python -m benchmarks.growth` measures how times grow with the number of waiting
requests, `python -m benchmarks.scale` the cost of one decision, and `python -m benchmarks.publish` writes the results
to `docs/`.
"""
