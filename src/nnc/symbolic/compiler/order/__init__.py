"""Which exec comes when: what execs touch, what may share memory, and orders of a low peak of live bytes."""
