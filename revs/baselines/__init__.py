"""The methods that REVS is compared with (§4.3; Appendix "Baselines Implementation and Experimental Details").

Each unlearns the same target tokens as REVS: t after the prompt and the true tokens before it (``revs.model.data.pairs``).
"""
