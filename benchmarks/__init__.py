"""Benchmarks against peers on one durable PostgreSQL: `python -m benchmarks`, or `make bench`.

Absolute times depend on the machine and its other load. So every row is measured in short rounds that alternate with
its peer's, and the result is the ratio within one run. `python -m benchmarks.growth` measures how the service's own
times grow with the number of waiting requests, `python -m benchmarks.scale` what one decision costs, and `python -m
benchmarks.publish` writes the results to `docs/`.
"""
