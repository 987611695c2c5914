"""Speed, against peers, on one PostgreSQL that keeps what it promises: `python -m benchmarks`, or `make bench`.

Absolute times belong to the machine and to what else it does. So every row is measured in short rounds that
take turns with its peer's, and what counts is the ratio within one run.
"""
