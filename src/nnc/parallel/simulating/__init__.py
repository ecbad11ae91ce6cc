"""What ranks will take, foretold without a launch."""
