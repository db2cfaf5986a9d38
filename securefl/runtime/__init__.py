"""The asyncio shell that performs what the pure core asks for."""
