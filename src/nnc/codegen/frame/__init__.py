"""What kernels share: phases, operands, tiles, packing, epilogues."""
