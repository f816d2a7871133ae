"""The workflow: parameters become runs, runs rows, rows pages (Snakemake and papermill)."""
