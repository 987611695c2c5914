"""The HTTP side of the service."""

from slackbot.web.health import Checks, health_routes
from slackbot.web.server import HttpServer

__all__ = ["Checks", "HttpServer", "health_routes"]
