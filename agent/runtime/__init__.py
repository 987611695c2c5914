"""Run agents: their definition (`Agent`, `@tool`), model turns, and the execution of calls."""
