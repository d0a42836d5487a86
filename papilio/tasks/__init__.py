"""A job: its question and plan, the leases, what a worker does with one, and the result; all without Dask.

In: a :class:`~papilio.tasks.job.JobSpec`. Out: a :class:`~papilio.tasks.result.CountResult`.
``session.py`` and ``directory.py`` write and read the job directory; a lease is in its ledger before it counts.
Start with ``job.py``, then ``plan.py``, ``lease_scheduler.py``, ``run.py`` and ``fold.py``, in the order of a run.
"""
