"""Leases of work items: who gets which, how long they are, what they cost, which are done."""
