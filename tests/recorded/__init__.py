"""Checks of recorded runs that only a fault of this project fails: no deployed run can use them."""
