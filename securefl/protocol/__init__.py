"""Pure machines: what server and parties say to each other, and when. No clock, no socket."""
