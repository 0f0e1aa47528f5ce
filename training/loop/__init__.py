"""The training loop: batches, objective, optimizer, checkpoints, process groups and memory errors. Free of Ray and
MLflow."""
