"""The command line: commands that parse their options, call the library and print; no layer imports it.

main        the commands by name, and what an error becomes: one line and an exit code
terminal    text that is safe to print, JSON, numbers for people
recipes     how each data set is trained unless told otherwise
training    train: the checkpoint, the history, the stop;   train prints them;   progress shows them meanwhile
the rest    one file per command
"""
