"""What ranks send each other is made of: names of operations, sums of what came, and words where they disagree."""
