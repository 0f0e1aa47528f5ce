"""The import path that manifests of earlier versions name, `service.on_ray:build`. Removed in the next release."""

from service.ray_serve import build

__all__ = ["build"]
