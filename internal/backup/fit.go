package backup

import (
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// Fit sets the concurrency of a job, and of the Go runtime, by the options and by the media of the sources and the
// repository.
func (job *Job) Fit(spec *options.Spec, media options.Media) {
	allowed := sysinfo.AllowedCPUs()
	cpu := sysinfo.WholeCPUs(allowed)
	par := spec.Parallel(cpu, media)
	par.Workers = par.Workers.Cap(spec.IO().Choose(options.LaterBackup), cpu)
	sysinfo.LetWait(par.Workers.Scanners, cpu)
	job.Parallel = poolSizes(par)
	job.Parallel.Processors = allowed
	if start, auto := spec.Compression(); auto {
		if allowed < 1 {
			start = 1 // compression will be the bottleneck
		}
		job.Parallel.Level = Range{Start: start, Least: 1, Most: options.HardestAuto}
	}
	job.Session.Uploads = par.Workers.Uploads
	job.Session.Memory = par.Memory - job.Parallel.Memory
	job.Session.Tuning.Frame = frameSize(par)
	job.Session.Tuning.Segment = max(1, int(spec.CommitBytes()/session.PackSize))
}

// poolSizes returns the limits of the worker pools. A third of the memory is for file data between the reader and the
// compressors, the rest for packs.
//
// --resource-utilization sets a maximum, and the backup starts with half of it. Without the option, the machine
// determines the start, and the number of readers may double. A number set by an option of its own is fixed. The tuner
// chooses between the limits during the run.
func poolSizes(par options.Parallel) Parallel {
	w := par.Workers
	limits := func(n, named, most int) Range {
		switch {
		case named > 0:
			return Range{Start: n, Least: n, Most: n}
		case par.Utilization > 0:
			return Range{Start: (n + 1) / 2, Least: 1, Most: n}
		}
		return Range{Start: n, Least: 1, Most: most}
	}
	return Parallel{
		Scanners:    w.Scanners,
		Readers:     limits(w.Readers, par.Named.Readers, 2*w.Readers),
		Compressors: limits(w.Compressors, par.Named.Compressors, w.Compressors),
		Uploads:     limits(w.Uploads, par.Named.Uploads, w.Uploads),
		Memory:      par.Memory / 3,
	}
}

// frameSize returns how many bytes of file data are compressed together: up to 4 MiB, as long as all compressors
// use at most a quarter of the memory for data in transit. Each holds a frame and as much history.
func frameSize(par options.Parallel) int {
	size := 4 << 20
	for size > 1<<20 && int64(2*size*par.Workers.Compressors) > par.Memory/4 {
		size /= 2
	}
	return size
}
