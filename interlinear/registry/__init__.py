"""The MLflow model registry: names, store, cache, curves and evaluations."""

import os

# Settings of MLflow, which it reads when it is imported: no telemetry, no progress bars of its own, and no warning
# about a missing git. The user's own settings take precedence.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
# it uses this program's handlers and filter
os.environ.setdefault("MLFLOW_CONFIGURE_LOGGING", "false")
