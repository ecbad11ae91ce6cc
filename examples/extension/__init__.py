"""A package of somebody else: it adds to nnc an operator, an attribute and a pass, and touches no file of nnc.

snake           the operator y = x + sin²(frequency · x) / frequency, with all that nnc asks of an operator
operations      the attribute OPERATIONS: how many additions and multiplications a command takes
reassociation   the fact WORK with its analysis, and a transform that multiplies chains of matrices in a cheaper order
"""
