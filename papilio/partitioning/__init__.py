"""How a job is cut: ranges of work items and partitions of the graph."""
