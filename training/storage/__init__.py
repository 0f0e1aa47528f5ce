"""Object storage shared by machines, and staging of a job's inputs on the nodes of a cluster."""
