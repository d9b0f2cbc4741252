"""One merge, step by step: plan, merge, account, publish, report."""
