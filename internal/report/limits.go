package report

import "time"

// Limits are the rates, in bytes a second, that the user allows for transfers to and from the repository; 0: any.
type Limits struct {
	Upload   int64 `json:"limit_upload,omitempty"` // bytes a second
	Download int64 `json:"limit_download,omitempty"`
}

// Limit records the limits of the job. progress returns how long they have
// held transfers and how many bytes were uploaded, as far as the rate is limited; nil: nothing.
func (l *Ledger) Limit(limits Limits, progress func() (held time.Duration, uploaded uint64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits, l.limited = limits, progress
}

// toUpload returns how many bytes of a backup wait to be stored because the upload rate is limited.
func (t *Totals) toUpload() uint64 {
	if t.Job != Backup || t.Limits.Upload <= 0 {
		return 0
	}
	return minus(t.Bytes.Compressed, t.Uploaded)
}
