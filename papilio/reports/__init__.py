"""Pages and figures about jobs, and scaling experiments.

In: job directories, or the directory of an experiment. Out: one HTML page, a table of rows, figures.
The only package that imports matplotlib, except ``charts.py``; pages are templates of Jinja2.
Start with ``job.py``, then ``experiment.py``.
"""
