"""The only reader of settings: the user's config.toml, a repository's corral.toml, and the environment.

`reading` reads both files into a `shapes.Config`; `files` is one file, `keys` all that it may hold; `agents`, `scopes`,
`money` and `policies` each make something of its tables; `places` tells where all of it lies.
"""
