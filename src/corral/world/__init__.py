"""ACT: the only code that touches the machine; one module per thing touched."""
