"""Forges: GitHub, GitLab, Forgejo and Gitea, Linear for issues, and any other that takes a push."""
