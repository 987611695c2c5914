"""The running service: its settings checked, its scheduler, its health, and what `doctor` finds."""
