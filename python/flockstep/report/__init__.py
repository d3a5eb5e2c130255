"""One self-contained page from the folder of a run or a comparison: `python -m flockstep.report DIR`.

reading turns files into values, and shapes says what they must look like; the files on pictures draw;
run_page and comparison_page say in words and tables what the numbers mean; page knows HTML. Nothing here knows how to
train.
"""
