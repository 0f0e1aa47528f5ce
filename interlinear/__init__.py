"""The front door: the console command, one thin module per verb."""
