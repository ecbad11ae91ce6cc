"""SPIR-V of a kernel's text: addresses are numbers of 64 bits, control flow is structured, floats are not contracted.

assembler      words: capabilities, types, constants, sections in their order
structured     which block a selection or a loop goes on at
quotients      indices divided by constants
translations   an instruction of LLVM's text in SPIR-V
module         entry points, push constants, functions
"""
