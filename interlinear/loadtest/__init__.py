"""Load test of a running service: request generation, measurement and reports."""
