"""Training and data preparation on Ray: Ray Train workers, their driver, Ray Data tasks, and jobs of a cluster."""
