"""Runs docker-compose.yml without Docker, for tests: each service's command as a process in its own namespaces."""
