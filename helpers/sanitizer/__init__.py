"""compute-sanitizer over the ladder: what its tools watch, what they said, planted faults, and docs/sanitizer.md.

`python -m helpers.compute_sanitizer` runs it on a GPU; `python -m helpers.sanitizer` writes the page from the records.
"""
