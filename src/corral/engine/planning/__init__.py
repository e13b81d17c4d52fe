"""From a request to a plan: everything that can be wrong is found here."""
