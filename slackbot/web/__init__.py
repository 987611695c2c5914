"""The HTTP side of the service."""

from slackbot.web.application import application
from slackbot.web.figures import FiguresOfService, Part
from slackbot.web.health import Checks, health_application, health_routes
from slackbot.web.openid import OpenID
from slackbot.web.server import HttpServer
from slackbot.web.site import Connected, Site
from slackbot.web.watch import Watch

__all__ = [
    "Checks",
    "Connected",
    "FiguresOfService",
    "HttpServer",
    "OpenID",
    "Part",
    "Site",
    "Watch",
    "application",
    "health_application",
    "health_routes",
]
