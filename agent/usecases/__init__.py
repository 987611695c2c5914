"""Use cases: one transaction each, one module or package per noun."""
