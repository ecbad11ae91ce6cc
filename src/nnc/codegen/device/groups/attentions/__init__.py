"""Attention by groups of threads, but for that of 16 bits, which multiplies matrices.

summed_attention        in f32
group_cached_attention  over what a generation keeps
score_masks             masks of scores
"""
