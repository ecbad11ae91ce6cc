"""Commands on ONNX files: run, plan, measure, compare, train, convert."""
