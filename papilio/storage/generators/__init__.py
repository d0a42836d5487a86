"""Graph generators: models, portable randomness, and one source of sorted edge blocks per model."""
