"""MLflow tracking of trainings: the run, its metrics and figures."""
