"""Flockstep's Python side: for now, the pictures of the report (flockstep.report)."""
