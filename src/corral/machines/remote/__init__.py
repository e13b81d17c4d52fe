"""ACT: attempts on other machines, by `corral host` at the far end of any command with stdin and stdout."""
