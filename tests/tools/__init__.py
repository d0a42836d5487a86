"""What tests are made with: oracles, fakes, strategies, caches."""
