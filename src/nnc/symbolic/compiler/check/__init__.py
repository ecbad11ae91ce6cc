"""Plans looked at by somebody else: whose bytes a step reads, and, in debug mode, whose it writes."""
