"""What a model is: text, encoders, attention, decoder, losses, search, metrics, explanation, bundle."""
