"""Approvals for agents of other frameworks: one module and optional extra each."""
