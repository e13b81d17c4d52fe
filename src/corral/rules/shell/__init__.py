"""Shell commands read without a shell: words, syntax, and the programs that a command starts."""
