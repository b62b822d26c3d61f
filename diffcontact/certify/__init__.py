"""What speaks against a derivative: passes that nearly touch, impacts whose order matters, contacts without load."""
