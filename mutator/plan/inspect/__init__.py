"""Survey the inputs: names, sizes, first bytes and rows, manifests."""
