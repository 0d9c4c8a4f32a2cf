package report

import "time"

// String names the stage for people.
func (s Stage) String() string {
	switch s {
	case Idle:
		return "idle"
	case Scan:
		return "scanning"
	case Compare:
		return "comparing with the parent"
	case Read:
		return "reading"
	case Chunk:
		return "chunking and hashing"
	case Compress:
		return "compressing"
	case Seal:
		return "encrypting"
	case Store:
		return "storing"
	case Encode:
		return "writing trees"
	case Fetch:
		return "fetching"
	case Unpack:
		return "decrypting and unpacking"
	case Write:
		return "writing files"
	case Attrs:
		return "setting metadata"
	case WaitScan:
		return "waiting for scanning"
	case WaitRead:
		return "waiting for reading"
	case WaitCPU:
		return "waiting for computing"
	case WaitStore:
		return "waiting for the repository"
	case WaitWrite:
		return "waiting for writing"
	case WaitMemory:
		return "waiting for memory"
	}
	return "unknown stage"
}

func (p Phase) String() string {
	switch p {
	case Opening:
		return "opening the repository"
	case Scanning:
		return "backing up"
	case Uploading:
		return "waiting for uploads"
	case Saving:
		return "saving the snapshot"
	case Planning:
		return "planning"
	case Restoring:
		return "restoring"
	case Finishing:
		return "setting metadata of directories"
	case Checking:
		return "checking structure"
	case Verifying:
		return "reading data back"
	case Listing:
		return "reading index and lists"
	case Following:
		return "following snapshots"
	case Repacking:
		return "repacking half-empty packs"
	case Marking:
		return "marking unneeded packs"
	case Indexing:
		return "rewriting the index"
	case Removing:
		return "removing packs"
	case Copying:
		return "copying"
	case Done:
		return "done"
	}
	return "unknown phase"
}

func (j Kind) String() string {
	switch j {
	case Backup:
		return "backup"
	case Restore:
		return "restore"
	case Check:
		return "check"
	case Prune:
		return "prune"
	case Copy:
		return "copy"
	}
	return "unknown job"
}

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

// Key is the name of the stage in JSON.
func (s Stage) Key() string {
	if int(s) >= stageCount {
		return "unknown"
	}
	return [stageCount]string{"idle", "scan", "compare", "read", "chunk", "compress", "seal", "store", "encode",
		"fetch", "unpack", "write", "attrs",
		"wait_scan", "wait_read", "wait_cpu", "wait_store", "wait_write", "wait_memory"}[s]
}

// Key is the name of the phase in JSON.
func (p Phase) Key() string {
	if int(p) >= phaseCount {
		return "unknown"
	}
	return [phaseCount]string{"opening", "scanning", "uploading", "saving", "planning", "restoring", "finishing",
		"checking", "verifying", "listing", "traversing", "repacking", "marking", "indexing", "removing",
		"copying", "done"}[p]
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

// String completes "waiting mostly for: ".
func (r Resource) String() string {
	switch r {
	case Nothing:
		return "nothing"
	case Finding:
		return "scanning"
	case Reading:
		return "reading"
	case Computing:
		return "computing"
	case Repository:
		return "the repository"
	case Writing:
		return "writing"
	case Memory:
		return "memory"
	case TransferLimit:
		return "the transfer limit"
	case Answer:
		return "an answer of the target"
	}
	return "unknown resource"
}

// Resource returns what the stage uses or waits for.
func (s Stage) Resource() Resource {
	switch s {
	case Scan, Compare, WaitScan:
		return Finding
	case Read, WaitRead:
		return Reading
	case Chunk, Compress, Seal, Encode, Unpack, WaitCPU:
		return Computing
	case Store, Fetch, WaitStore:
		return Repository
	case Write, Attrs, WaitWrite:
		return Writing
	case WaitMemory:
		return Memory
	}
	return Nothing
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
