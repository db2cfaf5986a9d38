"""What parties say to each other: a closed set of tagged structs."""
