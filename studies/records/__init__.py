"""What published records on the classic data sets are worth."""
