"""ACT: `corral host`, the program at the far end: workspaces, boxes and processes of attempts of other machines."""
