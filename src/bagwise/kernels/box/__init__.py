"""The box-counting kernel."""
