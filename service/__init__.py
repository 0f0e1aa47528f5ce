"""How a model is used: registry, engine, REST, playground."""
