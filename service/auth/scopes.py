"""Scopes of API keys."""

from enum import StrEnum


class Scope(StrEnum):
    """A permission of an API key."""

    TRANSLATE = "translate"  # all routes that do work
    METRICS = "metrics"  # metrics for Prometheus
    ADMIN = "admin"  # details for the operators of the service
