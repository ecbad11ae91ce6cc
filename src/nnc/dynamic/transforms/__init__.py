"""Functions differentiated, compiled, mapped, repeated and computed again."""
