"""CUDA devices as launchers see them, and what all CUDA sources share."""
