"""The tour: the whole main job on this machine, in a sandbox, with nothing to set up.

PostgreSQL is embedded, Slack is a stand-in with a page in the browser, the model is a script that says so. The
service in between is the real one, in a process of its own, and does not know any of this.
"""

from slackbot.demo.run import run_demo

__all__ = ["run_demo"]
