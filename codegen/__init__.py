"""From complete candidates to measured machine code.

    candidate --linalg, pipeline--> Program --tree/verify--> --c/printer--> C --c/build--> library
    library --running--> Outcome

`evaluator.CpuEvaluator` runs the whole way; every stage is a function of its own module. `cuda` goes the same
way for GPUs, and `generation.py` says what is different from backbone to backbone.
"""
