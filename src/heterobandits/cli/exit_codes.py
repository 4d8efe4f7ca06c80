"""The exit codes of all commands; 0 is that all went well."""

EXIT_FAILURE = 1  # the command ran, and what it found or did is not as it should be
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # by Ctrl-C, as shells have it
