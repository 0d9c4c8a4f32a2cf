module github.com/tidemark-backup/tidemark

go 1.26.0
