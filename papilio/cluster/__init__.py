"""Where tasks run: in this process, on local workers, on GPUs, on a Dask cluster or under Slurm.

In: a job and a function per task. Out: results of tasks, in any order, each exactly once.
The only package that imports Dask. Data moves through storage, never through the scheduler.
Start with ``driver.py`` (a job from plan to fold), then ``dispatcher.py`` (tasks to workers) and ``executor.py``.
"""
