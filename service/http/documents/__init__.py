"""Documents in requests: uploads that are written to disk, the types of requests and responses, and their jobs."""
