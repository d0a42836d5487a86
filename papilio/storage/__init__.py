"""Graph stores: Parquet edge lists with a manifest; conversion, generation, result files."""
