"""Running commands: dispatch and streams."""
