"""Language models in files of others.

gguf/    the file format of llama.cpp, read and written
"""
