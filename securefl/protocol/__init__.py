"""Pure machines of server and parties: their messages and when to send them. No clock, no socket."""
