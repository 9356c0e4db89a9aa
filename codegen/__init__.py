"""From complete candidates to measured machine code.

    candidate --nest, lower--> Program --verify--> --c_printer--> C --build--> library --worker--> Outcome

`evaluator.CpuEvaluator` runs the whole way; every stage is a function of its own module.
"""
