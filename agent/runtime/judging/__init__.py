"""Evaluate what somebody proposes: facts, checkpoints, limits, earlier rejections, grants, then a question for people.

The same way for calls of runs and actions of programs, for edits and for retries.
"""
