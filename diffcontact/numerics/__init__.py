"""What is not mechanics: compiling, caching of programs, linear algebra in batches, precision of products, devices."""
