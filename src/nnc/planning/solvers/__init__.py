"""One module per family of solvers; `nnc.planning.portfolio.SOLVERS` names them all."""
