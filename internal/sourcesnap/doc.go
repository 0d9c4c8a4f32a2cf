// Package sourcesnap makes snapshots of file systems, from which a backup reads its sources.
package sourcesnap
