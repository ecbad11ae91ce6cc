"""Tasks of the folder above as JAX writes them: functions of a tree of parameters, compiled."""
