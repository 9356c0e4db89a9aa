"""Cost models: roughly how long implementations take, to tell which are worth a measurement."""
