"""What a key of a service may be good for."""

from enum import StrEnum


class Scope(StrEnum):
    """What a key is good for."""

    TRANSLATE = "translate"  # every route that does work
    METRICS = "metrics"  # the figures for Prometheus
    ADMIN = "admin"  # what only those who run the service are told
