"""What every test runs under: one thread, nothing sent to anybody, and its own folder for what it writes."""

import os

# Before torch, Ray and MLflow are imported anywhere: they read these once.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"
for variable in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "INTERLINEAR_DATA", "RAY_ADDRESS"):
    os.environ.pop(variable, None)
