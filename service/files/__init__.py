"""Translation of documents as jobs: files on disk for a limited time, jobs, and processes that parse and render."""
