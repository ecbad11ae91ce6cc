    .section .rodata
    .balign 8
    .global train_inputs, test_inputs, train_labels, test_labels, counts
train_inputs: .incbin "train_inputs.bin"
test_inputs:  .incbin "test_inputs.bin"
train_labels: .incbin "train_labels.bin"
test_labels:  .incbin "test_labels.bin"
counts:       .incbin "counts.bin"
