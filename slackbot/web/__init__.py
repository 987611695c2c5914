"""The HTTP side of the service."""

from slackbot.web.application import application
from slackbot.web.health import Checks, health_routes
from slackbot.web.openid import OpenID
from slackbot.web.server import HttpServer
from slackbot.web.site import Connected, Site
from slackbot.web.watch import Watch

__all__ = ["Checks", "Connected", "HttpServer", "OpenID", "Site", "Watch", "application", "health_routes"]
