"""Our own agent: a program in the box that lets a model of any provider work on a task; `python -m corral.loop`."""
