"""Admissible lower bounds on the execution time of whatever a candidate can still become."""
