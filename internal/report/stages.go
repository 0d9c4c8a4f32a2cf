package report

import "time"

// words are what a stage or phase is called in JSON and by people, and which resource a stage uses or waits for.
type words struct {
	key, text string
	on        Resource
}

func (s Stage) words() words {
	return [stageCount]words{
		Idle:       {"idle", "idle", Nothing},
		Scan:       {"scan", "scanning", Finding},
		Compare:    {"compare", "comparing with the parent", Finding},
		Read:       {"read", "reading", Reading},
		Chunk:      {"chunk", "chunking and hashing", Computing},
		Compress:   {"compress", "compressing", Computing},
		Seal:       {"seal", "encrypting", Computing},
		Store:      {"store", "storing", Repository},
		Encode:     {"encode", "writing trees", Computing},
		Fetch:      {"fetch", "fetching", Repository},
		Unpack:     {"unpack", "decrypting and unpacking", Computing},
		Write:      {"write", "writing files", Writing},
		Attrs:      {"attrs", "setting metadata", Writing},
		WaitScan:   {"wait_scan", "waiting for scanning", Finding},
		WaitRead:   {"wait_read", "waiting for reading", Reading},
		WaitCPU:    {"wait_cpu", "waiting for computing", Computing},
		WaitStore:  {"wait_store", "waiting for the repository", Repository},
		WaitWrite:  {"wait_write", "waiting for writing", Writing},
		WaitMemory: {"wait_memory", "waiting for memory", Memory},
	}[s]
}

// Key is the name of the stage in JSON.
func (s Stage) Key() string { return s.words().key }

// String names the stage for people.
func (s Stage) String() string { return s.words().text }

// Resource returns what the stage uses or waits for.
func (s Stage) Resource() Resource { return s.words().on }

func (p Phase) words() words {
	return [phaseCount]words{
		Opening:   {key: "opening", text: "opening the repository"},
		Scanning:  {key: "scanning", text: "backing up"},
		Uploading: {key: "uploading", text: "waiting for uploads"},
		Saving:    {key: "saving", text: "saving the snapshot"},
		Planning:  {key: "planning", text: "planning"},
		Restoring: {key: "restoring", text: "restoring"},
		Finishing: {key: "finishing", text: "setting metadata of directories"},
		Checking:  {key: "checking", text: "checking structure"},
		Verifying: {key: "verifying", text: "reading data back"},
		Listing:   {key: "listing", text: "reading index and lists"},
		Following: {key: "traversing", text: "following snapshots"},
		Repacking: {key: "repacking", text: "repacking half-empty packs"},
		Marking:   {key: "marking", text: "marking unneeded packs"},
		Indexing:  {key: "indexing", text: "rewriting the index"},
		Removing:  {key: "removing", text: "removing packs"},
		Copying:   {key: "copying", text: "copying"},
		Done:      {key: "done", text: "done"},
	}[p]
}

// Key is the name of the phase in JSON.
func (p Phase) Key() string { return p.words().key }

// String names the phase for people.
func (p Phase) String() string { return p.words().text }

// String names the kind as JSON and people do.
func (j Kind) String() string { return [...]string{"backup", "restore", "check", "prune", "copy"}[j] }

// Moved says in a word what was done with the bytes that a job's speed is about: see Progress.Moved.
func (t *Totals) Moved() string {
	switch {
	case t.Job == Restore:
		return "restored"
	case t.Job == Check:
		return "verified"
	case t.Phase == Repacking:
		return "repacked"
	case t.Phase == Removing:
		return "removed"
	case t.Job == Copy:
		return "copied"
	}
	return "read"
}

// Resource is what can limit a job. A stage uses one; waiting for it counts for it too.
type Resource uint8

// The resources.
const (
	Nothing       Resource = iota
	Finding                // finding out what there is and what changed
	Reading                // file data of the source
	Computing              // the processors
	Repository             // the store, and the way to it
	Writing                // the target of a restore
	Memory                 // the memory budget
	TransferLimit          // the limit of the transfer rate; no stage uses it, see LimitedBy
	Answer                 // the target, which does not answer; no stage uses it, see Outages
	resourceCount = iota
)

// String completes "waiting mostly for: "; "" for Nothing.
func (r Resource) String() string {
	return [resourceCount]string{"", "scanning", "reading", "computing", "the repository", "writing", "memory",
		"the transfer limit", "an answer of the target"}[r]
}

// Waits reports whether the stage waits for another worker.
func (s Stage) Waits() bool { return s >= WaitScan }

// Bottleneck finds what held the workers up most: the resource that took the largest part of their time, by being used
// or by being waited for. Idle time counts for nothing. The share is of all time but idle time, 0 to 1; without any
// such time it is Nothing and 0. Who waits for workers that compute waits for the repository in the part of the time in
// which those wait for it.
func (t StageTimes) Bottleneck() (r Resource, share float64) {
	if held := t[WaitStore].Seconds(); held > 0 {
		computing := (t[Chunk] + t[Compress] + t[Seal] + t[Encode]).Seconds()
		passed := time.Duration(float64(t[WaitCPU]) * held / (held + computing))
		t[WaitCPU] -= passed
		t[WaitStore] += passed
	}
	var by [resourceCount]float64
	var sum float64
	for s, d := range t {
		if on := Stage(s).Resource(); on != Nothing {
			by[on] += d.Seconds()
			sum += d.Seconds()
		}
	}
	if sum <= 0 {
		return Nothing, 0
	}
	for i := range by {
		if by[i] > by[r] {
			r = Resource(i)
		}
	}
	return r, by[r] / sum
}

// LimitedBy returns what held a job up most in a time: the transfer limits if they held transfers for at least half of
// it, otherwise the bottleneck of the workers.
func LimitedBy(stages StageTimes, limited, over time.Duration) Resource {
	if limited > 0 && 2*limited >= over {
		return TransferLimit
	}
	r, _ := stages.Bottleneck()
	return r
}

// Busiest returns the stage that used r for the longest time, waits left out; Idle if none did.
func (t StageTimes) Busiest(r Resource) Stage {
	var busiest Stage
	var longest time.Duration
	for s, d := range t {
		if Stage(s).Resource() == r && !Stage(s).Waits() && d > longest {
			busiest, longest = Stage(s), d
		}
	}
	return busiest
}

// Minus returns the time that passed since an earlier snapshot.
func (t StageTimes) Minus(earlier StageTimes) StageTimes {
	for i := range t {
		t[i] = max(0, t[i]-earlier[i])
	}
	return t
}
