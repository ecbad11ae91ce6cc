"""Code generation: (parameters, target) -> text of a kernel and its phases, a pure function. Imports point down:

device/      the same generators for devices: a register is a group of threads, each phase an entry of its own
kernels/     one generator per operator family, named as the file in `nnc.ops`, with its rows of the table of operators
frame/       what kernels share: phases, strided operands, rows, tiles, packing, strips, epilogues, 16 bits widened
ir/          the description of a processor, the typed builder, mathematics and expressions on vectors

Nothing here knows the process that it runs in: no LLVM library, no settings, no memory. A target is a value, what a
machine measured is part of it (`Machine`), and who runs the text is somebody else: a backend, or a file of objects.
"""
