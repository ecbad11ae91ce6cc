"""One row per operator of ONNX, in a file per family; each exports its ROWS."""
