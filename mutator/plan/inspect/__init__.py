"""What is there: names, sizes, first bytes and rows, manifests."""
