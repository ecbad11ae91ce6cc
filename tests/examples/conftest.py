"""What pyright reads is not run: one of its lines is wrong on purpose."""

collect_ignore = ["typed.py"]
