"""Approvals for agents written with other frameworks: a module for each, an optional extra for each."""
