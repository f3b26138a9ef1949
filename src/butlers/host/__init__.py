"""One process that hosts butlers: settings, modules, server, schedule."""
