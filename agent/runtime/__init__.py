"""Run agents: their definition, model turns, and execution of calls."""
