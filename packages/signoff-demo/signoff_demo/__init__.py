"""The tour: the whole product on this machine, without setup.

PostgreSQL is embedded, Slack is a sandbox with a browser page, and the model is a script. The service is the real one,
in its own process.
"""

from signoff_demo.run import run_demo

__all__ = ["run_demo"]
