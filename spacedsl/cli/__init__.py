"""The command line: reads arguments, calls `spacedsl.api`, and is the only place that prints.

Results go to stdout; progress, notes and errors to stderr. Everything heavy is imported by the command that
needs it, so that `spacedsl --help` answers at once.
"""
