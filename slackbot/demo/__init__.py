"""The tour: the whole main job on this machine, with nothing to set up.

PostgreSQL is embedded, Slack a stand-in with a page in the browser, the model a script that says so. The service is
the real one, in a process of its own.
"""

from slackbot.demo.run import run_demo

__all__ = ["run_demo"]
