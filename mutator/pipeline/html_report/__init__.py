"""Reports as HTML: a small table for notebooks, and pages of one file that need no network and no script.

sums         the sums of the accounting, which the table and the pages show
notebook     the table
cut          what a page shows of long lists and long values, and what it leaves out
flow         the picture of the outcomes: the feed on one side, the master on the other
reject_file  the first rows of the file of rejected rows
changed_rows samples of changed rows
merge_page   the page of a merge
run_page     the page of ``mutator run``
trend        charts of values over versions
base_page    the page of a base
page         templates and style, by Jinja2 (extra ``report``)
templates/   the templates
"""
