"""Where models are kept: names, the MLflow store, aliases."""

import os

# Read by MLflow when it is imported: it reports no usage to its makers, draws no bars of its own, and does not mind
# that git is missing. What the user has set stays.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
os.environ.setdefault("MLFLOW_CONFIGURE_LOGGING", "false")  # what it logs goes where ours does, through the same filter
