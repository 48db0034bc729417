"""Exercises that check themselves. In a notebook:

    from helpers.exercises import check, hint, solution

    answer = ...              # the reader's turn
    check("01.1", answer)     # says whether it is right, and what is wrong, in words
    hint("01.1")              # the next of three hints
    solution("01.1")          # the solution, with its reason

The exercises of notebook NN are the tuple `EXERCISES` of `nbNN.py` in this package, each a `Number`, a
`Function` or a `KernelChange`; their solutions are the dict `SOLUTIONS` of `helpers/solutions/nbNN.py`.
`edit` makes a changed kernel text for a `KernelChange`.
"""

from helpers.exercises.kinds import Function, KernelChange, Number, edit
from helpers.exercises.session import Session

__all__ = ["Function", "KernelChange", "Number", "check", "edit", "hint", "solution"]

_session = Session()
check = _session.check
hint = _session.hint
solution = _session.solution
