"""Runs docker-compose.yml without Docker: each service's command as a process in its own namespaces."""
