"""Jobs, plans, leases, one task's run and the fold of partials."""
