"""Kernels for devices: a register of a generator is a group of threads, of which each holds one element.

device_targets  the table of devices that code is made for
text         what the builder wrote, as instructions
lanes        numbers of threads, and what they exchange
vectors      registers that hold vectors
spread       instructions on vectors become instructions of one thread, and exchanges between threads
visibility   which memory threads both read and write
functions    mathematics that no device has, written in the same text
preamble     how threads exchange, and entries
groups       kernels of whole groups of threads
spirv        the same text in SPIR-V
launch       the entry of each phase, how it is launched, and the memory that it needs
"""
