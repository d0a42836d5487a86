"""Reports of jobs and scaling experiments: measures, tables, figures, and one page that holds them all."""
