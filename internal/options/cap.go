package options

import "github.com/tidemark-backup/tidemark/pkg/iopolicy"

// Ceilings below Standard. Operations in flight when others open a window cannot be recalled, so the others' first one
// waits behind all of them: fewer and smaller ones shorten that. Readers have the largest requests, and eight of them
// read cold small files as fast as 32, while a machine of four processors would use sixteen. Scanners and uploads are
// only cut where the user asked for more: a scanner has one small request in flight, and over a network, where each
// waits for a round trip, fewer would cost time on an idle line.
const (
	mostScanners = 16
	mostReaders  = 8
	mostUploads  = 4
)

// Cap returns how many workers a job may use at most under a policy on a machine of cpu processors: w from Standard
// on, and otherwise at most the ceilings above. They are where an idle machine gains nothing from more, so an
// undisturbed job takes no longer. A number of 0 or less stays as it is.
func (w Workers) Cap(p iopolicy.Policy, cpu int) Workers {
	if p.Tier() <= iopolicy.Standard.Tier() {
		return w
	}
	return Workers{
		Scanners:    min(w.Scanners, mostScanners),
		Readers:     min(w.Readers, mostReaders),
		Compressors: min(w.Compressors, max(cpu, 1)),
		Uploads:     min(w.Uploads, mostUploads),
	}
}
