"""How a model comes to be: recipe, prepared data, training loop, Ray Train, MLflow."""
