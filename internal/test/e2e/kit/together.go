package kit

import (
	"github.com/tidemark-backup/tidemark/internal/backup"
)

// ReadAll is a job that reads everything, small files one after the other or together.
func ReadAll(job backup.Job, singly bool) backup.Job {
	job.Source.Comparing.Force = true
	job.Source.Reading.Singly = singly
	return job
}
