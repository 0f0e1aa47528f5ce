"""The import path that manifests of earlier versions name, `service.on_ray:build`. It goes with the next release."""

from service.ray_serve import build

__all__ = ["build"]
