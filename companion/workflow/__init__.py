"""The workflow: parameters become runs, runs become rows, rows become pages. Snakemake drives it, papermill executes it."""
