"""The public functions: a module per verb."""
