"""Exercises that check themselves. In a notebook:

    from helpers.exercises import check, hint, solution

    answer = ...              # the reader's turn
    check("01.1", answer)     # says whether it is right, and what is wrong, in words
    hint("01.1")              # the next of three hints
    solution("01.1")          # the solution, with its reason
    faulty("01.4")            # the faulty kernel of a FindTheBug, to run and to read

The exercises of notebook NN are the tuple `EXERCISES` of `nbNN.py` in this package, each a `Number`, a `Function`, a
`KernelChange` (kinds.py), a `PlaceMap` (place_map.py) or a `FindTheBug` (find_the_bug.py); their solutions are the dict
`SOLUTIONS` of `helpers/solutions/nbNN.py`.
`edit` makes a changed kernel text for a `KernelChange`.
"""

from helpers.exercises.kinds import Function, KernelChange, Number, edit
from helpers.exercises.session import Session

__all__ = ["Function", "KernelChange", "Number", "check", "edit", "faulty", "hint", "solution"]

_session = Session()
check = _session.check
faulty = _session.faulty
hint = _session.hint
solution = _session.solution
