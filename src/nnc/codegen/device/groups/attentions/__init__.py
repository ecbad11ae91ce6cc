"""Attention by groups of threads, but for that of 16 bits, which multiplies matrices.

summed_attention        in f32
group_cached_attention  over what a generation keeps
score_masks             masks of scores
head_rows               what attention of 16 bits needs too: operands of a head, and lse
"""
