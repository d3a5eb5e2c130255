"""One self-contained page from the folder of a run or a comparison: `python -m flockstep.report DIR`.

reading and traces turn files into values, and shapes says what they must look like; run_words, comparison_words and
tables say what the numbers mean; the files on pictures draw; run_page and comparison_page put both together, and page
knows HTML. text prints words and tables without the pictures. Nothing here knows how to train.
"""
