"""The emulator of the log evidence, and how it is learned."""
