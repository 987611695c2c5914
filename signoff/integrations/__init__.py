"""Approvals for agents written with other frameworks: one module and one optional extra per framework."""
