"""Neural network layers of the models: encoders, recurrent cells, attention, coverage and gates."""
