"""Commands whose operands lie on two devices."""
