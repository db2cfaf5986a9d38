"""``python -m securefl``."""

from securefl.cli.app import main

if __name__ == "__main__":
    main()
