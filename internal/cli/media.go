package cli

import (
	"runtime"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/priority"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
)

// dial sets how much a backup does at once, by the options and by what its sources and the repository lie on.
func (a *app) dial(job *backup.Job) {
	sources := job.Label.Sources
	if job.Stdin != nil {
		sources = nil // that is only the name of what comes out of a pipe
	}
	par := a.spec.Parallel(runtime.NumCPU(), options.Media{Source: medium(a.spec.IO().Medium, sources...), Target: a.targetMedium()})
	w := &par.Workers
	most := priority.Cap(a.spec.IO().Choose(options.LaterBackup), priority.Workers{Scanners: w.Scanners, Readers: w.Readers,
		Compressors: w.Compressors, Uploads: w.Uploads}, runtime.NumCPU())
	w.Scanners, w.Readers, w.Compressors, w.Uploads = most.Scanners, most.Readers, most.Compressors, most.Uploads
	job.Parallel = crews(par)
	if c := a.spec.Compression(); c.Auto {
		job.Parallel.Level = backup.Range{Start: c.Level, Least: 1, Most: options.HardestAuto}
	}
	job.Session.Uploads = par.Workers.Uploads
	a.task.uploads = par.Workers.Uploads
	a.overlap(w.Scanners + w.Readers)
	job.Session.Memory = par.Memory - job.Parallel.Memory
	job.Session.Tuning.Frame = frameSize(par)
	job.Session.Tuning.Segment = max(1, int(a.spec.Transfer().CommitBytes/session.PackSize))
}

// overlap has goroutines run while others wait inside a call for a disk. Such a call keeps its processor, of which the
// runtime has as many as the machine, until a watchdog takes it away, which is 20 µs to 10 ms later: with two processors, two
// scanners that wait stop the compressing. So there is one more for every second of those who wait. Who sets GOMAXPROCS
// decides.
func (a *app) overlap(waiting int) {
	if _, set := a.Env("GOMAXPROCS"); !set {
		runtime.SetDefaultGOMAXPROCS() // if this is not the first run of the process
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + waiting/2)
	}
}

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
	return at.medium(a.spec.IO().Medium)
}

// medium tells of the slowest of some paths, unless a word of --medium says what they are. Those that cannot be looked at count as unknown: what is wrong with them is
// for those to say who read them.
func medium(word string, paths ...string) device.Medium {
	media := make([]device.Medium, len(paths))
	for i, path := range paths {
		info, err := device.Of(path)
		if err == nil {
			info, err = device.Override(info, word)
		}
		if err == nil {
			media[i] = info.Medium
		}
	}
	return device.Slowest(media...)
}
