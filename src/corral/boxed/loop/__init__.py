"""Our own agent, a program in the box: `python -m corral.boxed.loop` lets any model work on a task."""
