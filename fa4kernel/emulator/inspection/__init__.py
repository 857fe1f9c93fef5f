"""What the text of a kernel tells before it runs: barriers, roles, parameters, memory."""
