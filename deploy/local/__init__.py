"""docker-compose.yml without Docker: each service's command as a process of its own, in its own namespaces."""
