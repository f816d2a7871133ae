"""Is the secret gone? Attacks on an unlearned model, behind one signature, and their controls.

An audit of one edit:

    before = copy.deepcopy(decoder)
    about = context.context(before, records, pool)  # pool: similar secrets, never trained on
    edit = least_squares.unlearn(decoder, secrets, hp)
    found = suite.audit(decoder, secrets, about)  # attack → id of a secret or a control → value
    suite.ATTACKS["leak"].recovered(found["leak"][secrets[0].id])
"""
