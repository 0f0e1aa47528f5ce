"""Training data that models write: sequence-level distillation, and round trips for automatic post-editing."""
