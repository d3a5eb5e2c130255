"""Callbacks for trainers that own the loop. Each module imports its trainer, so import the one that you use."""
