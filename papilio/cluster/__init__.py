"""Cluster executors: where tasks run."""
