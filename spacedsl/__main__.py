"""`python -m spacedsl`: the command line, where its script is not on the path."""

from spacedsl.cli.app import main

if __name__ == "__main__":
    main()
