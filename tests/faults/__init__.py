"""Counts on a cluster of several hosts whose links, processes and disks fail."""
