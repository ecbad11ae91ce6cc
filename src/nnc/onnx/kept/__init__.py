"""What a run needs of a file whose programs are on the disk: no module here needs the package `onnx`.

opened_file.py       the bytes of a file, its large elements apart, and their digest
input_signatures.py  what tells programs apart by their inputs
asked_elements.py    elements that making a program asks for
"""
