def suggested(frame, columns, reads):
    return ""
