"""Money: reserved before, counted meanwhile, settled after; and the accounts it is spent on."""
