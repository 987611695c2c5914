from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute

from slackbot.app import Service

SOME_ID = "01980000-0000-7000-8000-000000000000"


@dataclass(frozen=True)
class Mounted:
    """One method of a route; ``path`` has its parameters in braces."""

    method: str
    path: str
    route: BaseRoute

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"\{(\w+)(?::path)?\}", self.path)

    @property
    def query(self) -> list[str]:
        """Names of query parameters as they are sent."""
        if not isinstance(self.route, APIRoute):
            return []
        return list(_query(self.route.dependant))

    def address(self, **parameters: str) -> str:
        """An id stands for every other parameter."""
        return re.sub(r"\{(\w+)(?::path)?\}", lambda found: parameters.get(found[1], SOME_ID), self.path)


def _query(dependant: Dependant) -> Iterator[str]:
    yield from (each.alias for each in dependant.query_params)
    for each in dependant.dependencies:
        yield from _query(each)


def application_of(service: Service) -> FastAPI:
    return cast("FastAPI", service.web.http._server.config.app)


def mounted(service: Service) -> list[Mounted]:
    return [
        Mounted(method, context.path or "", context.original_route)
        for context in iter_route_contexts(application_of(service).routes)
        for method in sorted(context.methods or ())
    ]
