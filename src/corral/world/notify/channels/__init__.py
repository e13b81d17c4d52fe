"""Ways to tell the user that something waits in the inbox: one file each, called as its key of `[notify]`."""
