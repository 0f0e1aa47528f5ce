"""API keys, scopes, daily quotas and rate limits of the service."""
