"""Everything that is served over HTTP: the API, the inbox page, health and metrics."""

from slackbot.slack_api.openid import OpenID
from slackbot.web.application import application
from slackbot.web.http.context import SlackConnection, WebContext
from slackbot.web.http.health import health_application, health_routes
from slackbot.web.http.metrics import MOST_CONNECTIONS
from slackbot.web.http.places import Places
from slackbot.web.http.server import HttpServer
from slackbot.web.http.service_metrics import ProcessPart, ServiceMetrics
from slackbot.web.http.watch import ChangeWatch
