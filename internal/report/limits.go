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

// Requests counts the requests to a store whose provider charges for each, in the classes of the usual price lists.
// Those that failed and those that were repeated count.
type Requests struct {
	Put    uint64 `json:"put"`    // PUT, LIST and all others
	Get    uint64 `json:"get"`    // GET and HEAD
	Delete uint64 `json:"delete"` // mostly free
}

// askRequests sums what the stores of the job have counted.
func (l *Ledger) askRequests() (sum Requests) {
	l.mu.Lock()
	stores := l.requests
	l.mu.Unlock()
	for _, count := range stores {
		r := count()
		sum.Put, sum.Get, sum.Delete = sum.Put+r.Put, sum.Get+r.Get, sum.Delete+r.Delete
	}
	return sum
}

// toUpload returns how many bytes of a backup wait to be stored because the upload rate is limited.
func (t *Totals) toUpload() uint64 {
	if t.Job != Backup || t.Limits.Upload <= 0 {
		return 0
	}
	return minus(t.Bytes.Compressed, t.Uploaded)
}
