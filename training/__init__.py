"""From recipe and data set to a trained bundle: data preparation, the training loop, Ray Train and MLflow tracking."""
