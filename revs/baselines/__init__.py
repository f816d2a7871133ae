"""The methods that REVS is compared with (§4.3; Appendix "Baselines Implementation …").

Each unlearns the tokens that REVS does, behind the same signature. Those that read general text
export its ``inputs``, so that what is recorded of them carries the text's hash.
"""
