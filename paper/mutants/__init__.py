"""Mutants of the shipped source: small changes made by rule, each of which the verification has to reject.

No maintained tool fits. mutmut and cosmic-ray run a test command on a package whose changed file is imported as it is,
so every mutant pays seconds for importing PyTorch; mutmut moreover puts all variants of a function into one file, with
a switch in front, and a Triton kernel is compiled (and interpreted) from the source of that very function, where a
switch is no valid kernel. Neither knows a kind of slot, a select or a mask. What is needed beside them is small: rules
over the syntax tree (`generate`), a process forked after the imports for each mutant (`runner`), and the package's own
verification in it, cheapest checks first (`judge`).

`python -m paper.mutants` writes paper/results/mutants.json.
"""
