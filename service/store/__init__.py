"""The SQL database of a service, which keeps API keys and suggestions: SQLite or PostgreSQL."""
