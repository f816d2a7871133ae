"""The measures (§4.4): scores of ranks, the attacks, ordinary text."""
