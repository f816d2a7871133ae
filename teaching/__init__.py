"""Exercises that check themselves: each compares a student's function with ``revs``.

    import teaching

    teaching.names()  # of all exercises
    teaching.check("rank")(my_rank)  # says what is wrong, or that it agrees

The statements stand in ``book/exercises``, one file per chapter.
"""

from teaching.checking import Wrong, check, names

__all__ = ["Wrong", "check", "names"]
