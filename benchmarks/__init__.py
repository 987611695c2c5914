"""Speed, against peers, on one PostgreSQL that keeps what it promises: `python -m benchmarks`, or `make bench`.

Absolute times belong to the machine and to what else it does. So every row is measured in short rounds that
take turns with its peer's, and what counts is the ratio within one run. `python -m benchmarks.growth` measures how
the service's own times grow with what waits, `python -m benchmarks.scale` what one decision costs, and
`python -m benchmarks.publish` writes all of it down in `docs/`.
"""
