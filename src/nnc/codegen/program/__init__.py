"""Whole programs as text: kernels in order, loops and branches, behind one function of C."""
