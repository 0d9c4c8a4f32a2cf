package cli

import (
	"runtime"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// setParallel sets the concurrency of a backup by the options and the media of its sources and the repository.
func (a *app) setParallel(job *backup.Job) {
	sources := job.Label.Sources
	if job.Stdin != nil {
		sources = nil // Sources is only the name of the stream
	}
	allowed := sysinfo.AllowedCPUs()
	cpu := sysinfo.WholeCPUs(allowed)
	par := a.spec.Parallel(cpu, options.Media{Source: a.devices.Medium(a.spec.IO().Medium, sources...),
		Target: a.place.Medium()})
	w := &par.Workers
	*w = w.Cap(a.spec.IO().Choose(options.LaterBackup), cpu)
	a.letWait(w.Scanners, cpu)
	job.Parallel = poolSizes(par)
	job.Parallel.Processors = allowed
	if c := a.spec.Compression(); c.Auto {
		start := c.Level
		if allowed < 1 {
			start = 1 // compression will be the bottleneck
		}
		job.Parallel.Level = backup.Range{Start: start, Least: 1, Most: options.HardestAuto}
	}
	job.Session.Uploads, a.place.Uploads = par.Workers.Uploads, par.Workers.Uploads
	job.Session.Memory = par.Memory - job.Parallel.Memory
	job.Session.Tuning.Frame = frameSize(par)
	job.Session.Tuning.Segment = max(1, int(a.spec.Transfer().CommitBytes/session.PackSize))
}

// letWait raises GOMAXPROCS by the number of scanners. The scheduler replaces a thread that is blocked in a call only
// after 20 µs, while a disk answers in a hundred: without that, a cold walk leaves disk and processors idle half of the
// time, and a first backup takes 15 to 25 % longer. Under a CPU quota the processors of the quota count. GOMAXPROCS in
// the environment stays what it is.
func (a *app) letWait(scanners, cpu int) {
	if _, chosen := a.Env("GOMAXPROCS"); !chosen {
		runtime.GOMAXPROCS(places(scanners, cpu, runtime.GOMAXPROCS(0)))
	}
}

// places returns how many threads may run Go code at once: one for each scanner and each processor, at most five for a
// processor, so that the garbage collector, which takes a quarter of them, does not fill a small machine.
func places(scanners, cpu, now int) int { return max(now, min(scanners+cpu, 5*cpu)) }

// frameSize returns how many bytes of file data are compressed together: up to 4 MiB, as long as all compressors
// use at most a quarter of the memory for data in transit. Each holds a frame and as much history.
func frameSize(par options.Parallel) int {
	size := 4 << 20
	for size > 1<<20 && int64(2*size*par.Workers.Compressors) > par.Memory/4 {
		size /= 2
	}
	return size
}
