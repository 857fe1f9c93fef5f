"""Microbenchmarks of what Hopper shares with Blackwell, run on an H100 or H200.

`run.py` builds and runs them, `import_results` checks and installs a result file as the data that
`fa4sim` reads, `report` writes the page that shows it.
"""
