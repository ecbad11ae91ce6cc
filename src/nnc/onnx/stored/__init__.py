"""Where the elements of an ONNX file's tensors are.

message.py   the message with the elements of large tensors apart
external.py  files beside the message
"""
