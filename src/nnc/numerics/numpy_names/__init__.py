"""What NumPy alone has of the four projects: functions of elements on the host, and what is written on operators."""
