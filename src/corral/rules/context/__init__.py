"""What an agent is told and hands on."""
