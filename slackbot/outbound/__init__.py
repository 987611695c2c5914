"""Webhooks and e-mail. A failing receiver never delays a decision."""
