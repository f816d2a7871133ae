"""The methods that REVS is compared with (§4.3; Appendix "Baselines Implementation …").

Each unlearns the tokens that REVS does (``revs.model.targets.pairs``), behind the same signature.
The benign text that some read is that of ``revs.measures.ordinary``; those export its ``inputs``,
so that what is recorded of them carries the text's hash.
"""
