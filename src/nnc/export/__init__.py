"""Compiled programs as C libraries: an object file, a header, and the memory as numbers in it.

c_library           all of it as files                  description   what it is made of, as numbers
library_statements  commands in order, refusals         interface     headers
program_ports       models and files, compiled          example       an example and a check in C
browser             modules of WebAssembly, pages       browser_check a check for node
library_sizes       programs of several sizes as one
archive             static libraries                    shared_library  shared ones, by a linker
"""

from nnc.export.c_library import CLibrary, library
from nnc.export.program_ports import ExportableModel, ProgramPorts

__all__ = ["ExportableModel", "CLibrary", "ProgramPorts", "library"]
