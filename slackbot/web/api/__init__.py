"""The API of programs: ask, wait, claim, report, and run agents."""
