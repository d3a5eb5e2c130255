"""One self-contained page from the folder of a run or a comparison: `python -m flockstep.report DIR`.

records says what the files hold and reading turns folders into values; words says what the numbers mean; the files on
pictures, panels, histograms and timelines draw, each on a sheet, which svg turns into a part of the page; pages puts words,
tables and pictures into the templates, and text prints the same without pictures. templates/explore.js is all the script. The tables of a comparison come as the command has made them. Nothing here knows how to train.

From Python: `flockstep.write_report("runs/first")`.
"""
