"""The methods that REVS is compared with (§4.3; Appendix "Baselines Implementation …").

Each unlearns the tokens that REVS does, behind the same signature; MEMIT, Max-Entropy and
Head-Projection are three objectives of one module.
"""
