"""The methods that REVS is compared with (§4.3; Appendix "Baselines Implementation …").

Each unlearns the same target tokens as REVS, t after the prompt and the true tokens before it
(``revs.model.targets.pairs``), behind the same signature: ``unlearn(decoder, targets, hp, seed,
progress) -> Edit``. The benign text that some of them read is that of ``revs.measures.ordinary``;
those export its ``inputs``, so that what is recorded of them carries the text's hash.
"""
