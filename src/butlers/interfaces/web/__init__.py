"""The pages for a browser: read, explain and correct memories; they work without scripts."""
