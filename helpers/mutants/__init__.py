"""Mutation testing of rungs 5 to 10 and the appendix's kernels: calls of primitives removed or changed.

Something must notice, or the mutant is listed as harmless, with the reason.

    tried(mutants(7)[0])     # what becomes of one mutant on the emulator
"""

from helpers.mutants.harmless import HARMLESS, Harmless, reason
from helpers.mutants.mutate import MUTATED_RUNGS, Mutant, mutants
from helpers.mutants.trial import NOT_COMPILED, NOT_LAUNCHED, SURVIVES, WRONG, Outcome, tried

__all__ = [
    "HARMLESS",
    "MUTATED_RUNGS",
    "NOT_COMPILED",
    "NOT_LAUNCHED",
    "SURVIVES",
    "WRONG",
    "Harmless",
    "Mutant",
    "Outcome",
    "mutants",
    "reason",
    "tried",
]
