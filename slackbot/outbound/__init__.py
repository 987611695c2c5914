"""Webhooks and e-mail. A receiver that fails never holds up a decision."""
