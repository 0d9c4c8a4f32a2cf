package cli

import (
	"runtime"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/priority"
	"github.com/tidemark-backup/tidemark/internal/processors"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
)

// dial sets how much a backup does at once, by the options and by what its sources and the repository lie on.
func (a *app) dial(job *backup.Job) {
	sources := job.Label.Sources
	if job.Stdin != nil {
		sources = nil // that is only the name of what comes out of a pipe
	}
	allowed := processors.Allowed()
	cpu := processors.Whole(allowed)
	par := a.spec.Parallel(cpu, options.Media{Source: medium(a.devices, a.spec.IO().Medium, sources...), Target: a.targetMedium()})
	w := &par.Workers
	most := priority.Cap(a.spec.IO().Choose(options.LaterBackup), priority.Workers{Scanners: w.Scanners, Readers: w.Readers,
		Compressors: w.Compressors, Uploads: w.Uploads}, cpu)
	w.Scanners, w.Readers, w.Compressors, w.Uploads = most.Scanners, most.Readers, most.Compressors, most.Uploads
	a.letWait(w.Scanners, cpu)
	job.Parallel = crews(par)
	job.Parallel.Processors = allowed
	if c := a.spec.Compression(); c.Auto {
		start := c.Level
		if allowed < 1 {
			start = 1 // compressing will be what takes longest: do not wait for that to show
		}
		job.Parallel.Level = backup.Range{Start: start, Least: 1, Most: options.HardestAuto}
	}
	job.Session.Uploads, a.task.uploads = par.Workers.Uploads, par.Workers.Uploads
	job.Session.Memory = par.Memory - job.Parallel.Memory
	job.Session.Tuning.Frame = frameSize(par)
	job.Session.Tuning.Segment = max(1, int(a.spec.Transfer().CommitBytes/session.PackSize))
}

// letWait lets as many threads wait inside calls, for a disk that looks for inodes, as there are scanners, while others go
// on. The scheduler takes a processor's place from a thread that waits only after it has looked, 20 µs later at best, and
// a disk answers in a hundred: with no more places than processors, a cold walk had both idle half of the time, and a first
// backup took 15 to 25 % longer. What runs at once is for the kernel to decide. Where a quota leaves the program fewer
// processors than there are, these count: more threads would use it up sooner in each period, and then all stand still.
// GOMAXPROCS in the environment stays what it is.
func (a *app) letWait(scanners, cpu int) {
	if _, chosen := a.Env("GOMAXPROCS"); !chosen {
		runtime.GOMAXPROCS(places(scanners, cpu, runtime.GOMAXPROCS(0)))
	}
}

// places returns how many threads may run Go code at once: one for each scanner and each processor, at most five for a
// processor, so that the garbage collector, which takes a quarter of them, does not fill a small machine.
func places(scanners, cpu, now int) int { return max(now, min(scanners+cpu, 5*cpu)) }

// frameSize returns how many bytes of file data are compressed together: up to 4 MiB, where all compressors together take
// no more than a quarter of the memory for data under way. Each of them holds a frame, and as much again of history.
func frameSize(par options.Parallel) int {
	size := 4 << 20
	for size > 1<<20 && int64(2*size*par.Workers.Compressors) > par.Memory/4 {
		size /= 2
	}
	return size
}

// targetMedium tells what the repository lies on, also before it is made.
func (a *app) targetMedium() device.Medium {
	at, err := a.place()
	if err != nil {
		return device.Unknown // opening it says what is wrong
	}
	return at.medium(a.devices, a.spec.IO().Medium)
}

// medium tells of the slowest of some paths, unless a word of --medium says what they are. Those that cannot be looked at
// count as unknown: what is wrong with them is for those to say who read them.
func medium(devices *device.Finder, word string, paths ...string) device.Medium {
	media := make([]device.Medium, len(paths))
	for i, path := range paths {
		if info, err := devices.Of(path); err == nil {
			if info, err = device.Override(info, word); err == nil {
				media[i] = info.Medium
			}
		}
	}
	return device.Slowest(media...)
}
