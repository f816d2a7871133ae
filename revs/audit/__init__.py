"""Is the secret gone? Attacks on an unlearned model, behind one signature, and their calibration.

``revs.audit.suite`` runs them; each attack is a module of this package.
"""
