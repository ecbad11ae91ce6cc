"""What training minimizes, and by which rule."""
