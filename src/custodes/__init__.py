"""custodes judges the judges.

Given people's ratings and automatic ratings of the same outputs, it says which automatic metric or LLM judge to trust,
whom it favours, and what the ranking of the systems really is.

    import custodes as cu

    study = cu.read("ratings.csv")          # or any dataframe, or "demo"
    cu.check(study).problems                # what would fool you
    cu.agreement(study).metrics             # who agrees with people, with intervals
    cu.favoritism(study).systems            # whom each metric favours
    cu.ranking(study).errors                # which decisions it gets wrong
    cu.report(study).save("report.html")    # all of it, in one page
"""
