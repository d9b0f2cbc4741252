"""Reports: values with sections, as text for a terminal, as JSON, and as pages that need no network and no script.

sections        what sections are made of, and their text
printed         the three forms of a report
merge_report    the report of a merge, which those of a run and of an apply share
base_report     the report of a base
sums            the sums of a merge: each row in one outcome
pictures        the picture of these sums, and charts over versions
row_samples     samples of changed rows and of rejected rows
page            the page, by Jinja2 (extra ``report``)
templates/      its templates and style
"""
