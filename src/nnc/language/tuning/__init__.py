"""Fine-tuning of language models of files, within a limit that is stated before the first step.

training_text.py     chats, texts and preferences as sequences of tokens, of which some are learned
row_packing.py       sequences as rows of one length
rows_network.py      a decoder on such rows, and the matrices that are in blocks meanwhile
tuning_options.py    what is asked for
fine_tuning.py       training, checkpoints
adapters.py          low-rank products, and PEFT's files of them
merging.py           a model's file with adapters, or with all its tensors, in it
"""
