"""HTTP layer of the service: routes, request and response types, body parsing, middleware, streaming and uvicorn's
setup."""
