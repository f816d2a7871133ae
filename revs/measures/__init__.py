"""The measures (§4.4): scores of ranks, the attacks, general text."""
