"""What is about this reproduction: experiments, rows, measures, analysis, plots, workflow."""
