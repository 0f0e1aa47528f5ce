"""Where models are kept: names, the MLflow store, aliases."""
