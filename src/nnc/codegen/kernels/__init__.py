"""One generator per operator family, and the table of which operator is served by which."""
