"""Lengths of time as people say them."""

from __future__ import annotations


def seconds(amount: float) -> str:
    """Tenths of a second below a minute."""
    amount = max(0.0, amount)
    if amount < 0.05:
        return "less than 0.1 s"
    if amount < 59.95:
        return f"{amount:.1f} s"
    minutes, rest = divmod(round(amount), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


def roughly(amount: float) -> str:
    """A duration as people say it: `40 s`, `23 min`, `3 h 20 min`, `12 days`."""
    if amount < 60:
        return f"{int(amount)} s"
    if amount < 3600:
        return f"{int(amount // 60)} min"
    hours = int(amount // 3600)
    if hours < 48:
        minutes = int(amount % 3600 // 60)
        return f"{hours} h {minutes} min" if hours < 10 and minutes else f"{hours} h"
    return f"{hours // 24} days"
