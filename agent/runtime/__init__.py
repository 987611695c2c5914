"""Running agents: what an agent is (`Agent`, `@tool`), its model turns, and the execution of its calls."""
