"""The status page, live, on this machine: GET shows, POST with a plan's code answers. Needs the extra `web`."""
