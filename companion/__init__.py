"""What is about this reproduction: own model, runs, record, pages, ledger, workflow."""
