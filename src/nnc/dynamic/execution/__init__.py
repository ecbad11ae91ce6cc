"""How a command of the dynamic graph runs: at once, later with others (lazy), or not again (memoization)."""
