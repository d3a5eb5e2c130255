"""One self-contained page from the folder of a run or a comparison: `python -m flockstep.report DIR`.

reading turns files into values, and shapes says what they must look like; run_pictures and comparison_pictures draw;
run_page and comparison_page say in words and tables what the numbers mean; page knows HTML. Nothing here knows how to
train.
"""
