"""Where each value lies: live ranges, who takes over whose memory, slots of loops, and the plan of the arena."""
