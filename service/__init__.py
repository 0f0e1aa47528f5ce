"""The inference service: HTTP API, authentication, engine, model management and Ray Serve deployment."""
