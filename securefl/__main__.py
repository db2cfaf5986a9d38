"""Entry point of ``python -m securefl``."""

from securefl import cli

if __name__ == "__main__":
    cli.main()
