"""The measures (§4.4): scores of ranks, the attacks, ordinary text.

What can be measured besides the scores, on an edited model, is a function ``measure(decoder, split,
k) -> (result, columns by item)``: ``attacks.measure``, ``attacks.perturbations``, ``cue.measure``.
"""
