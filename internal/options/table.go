package options

import "slices"

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Table returns every option, in the order of the listing.
func Table() []Option {
	return slices.Concat(placeOptions(), shareOptions(), bucketOptions(), fromOptions(), cacheOptions(),
		policyOptions(), workOptions(),
		dataOptions(),
		selectionOptions(), scheduleOptions(), hookOptions(), notifyOptions(), metricsOptions(), outputOptions())
}

// placeOptions locate and unlock the repository.
func placeOptions() []Option {
	return slices.Concat(grouped(GroupRepository, 0, []Option{
		{Name: "repo", Short: "r", Kind: Path, Own: "REPOSITORY TIDEMARK_REPOSITORY",
			Help: "a folder, smb://..., s3://... or sftp://...; LABEL=name/folder or UUID=id/folder of a disk; default: a " +
				"folder of the user's data directory"},
		{Name: "option-file", Kind: Path, Rare: true, Barred: NotFile, Own: "OPTIONFILE TIDEMARK_OPTIONS",
			Help: "read options from this file instead of the usual places"},
		{Name: "server-name", Rare: true, Barred: NotFile,
			Help: "use this stanza of the option file (default: the one that DEFAULTSERVER names, or the first)"},
		{Name: "limit-upload", Kind: Size, Unit: kib, Default: "0", Topic: TopicHowFast, Rare: true,
			Help: "limit of uploads, in KiB/s if no unit is given; 0: no limit"},
		{Name: "limit-download", Kind: Size, Unit: kib, Default: "0", Topic: TopicHowFast, Rare: true,
			Help: "limit of downloads, in KiB/s if no unit is given; 0: no limit"},
	}), grouped(GroupKeys, 0, []Option{
		{Name: "password", Barred: NotFlag | NotFile, Secret: true,
			Help: "passphrase of the repository; only from the environment, since other users can see a command line"},
		{Name: "password-file", Short: "p", Kind: Path, Help: "file whose first line is the passphrase"},
		{Name: "password-command", Rare: true, Help: "command whose first line of output is the passphrase"},
		{Name: "key-file", Kind: Path, Rare: true, Help: "key file that opens the repository instead of a passphrase"},
	}))
}

// cacheOptions configure the local cache.
func cacheOptions() []Option {
	return grouped(GroupCache, 0, []Option{
		{Name: "cache-dir", Kind: Path, Rare: true, IBM: "DEDUPCACHEPath",
			Help: "folder of the local cache (default: in the user's cache directory)"},
		{Name: "no-cache", Kind: Bool, Default: "no", Rare: true, Help: "use no local cache: slower, but otherwise the same"},
		{Name: "dedup-cache", Kind: Bool, Default: "yes", Rare: true, IBM: "ENABLEDEDUPCache",
			Help: "keep the index of stored data on this machine; no is the same as no-cache"},
		{Name: "dedup-cache-size", Kind: Size, Unit: mib, Min: mib, Max: 1 << 40, Default: "256M", Rare: true,
			IBM: "DEDUPCACHESize", Help: "maximum size of the local cache of tree data, in MB if no unit is given"},
	})
}

// workOptions set concurrency, memory and transfer sizes.
func workOptions() []Option {
	return slices.Concat(grouped(GroupParallel, 0, []Option{
		{Name: "resource-utilization", Kind: Int, Min: 1, Max: 10, Auto: true, Default: "auto", IBM: "RESOURceutilization",
			Help: "how much runs in parallel, 1 (least) to 10: scanners, readers, compressors and uploads; auto: by " +
				"processors and disks"},
		{Name: "scanners", Kind: Int, Min: 1, Max: 256, Auto: true, Default: "auto", Rare: true,
			Help: "directories scanned at the same time; auto: see resource-utilization"},
		{Name: "readers", Kind: Int, Min: 1, Max: 256, Auto: true, Default: "auto", Rare: true,
			Help: "files read at the same time"},
		{Name: "compressors", Kind: Int, Min: 1, Max: 256, Auto: true, Default: "auto", Rare: true,
			Help: "workers that chunk, hash and compress"},
		{Name: "uploads", Kind: Int, Min: 1, Max: 256, Auto: true, Default: "auto", Rare: true,
			Help: "packs uploaded at the same time"},
		{Name: "memory", Kind: Size, Unit: mib, Min: 32 * mib, Max: 1 << 40, Default: "96M", Rare: true,
			Help: "memory for data in transit, in MB if no unit is given"},
	}), grouped(GroupTransfer, 0, []Option{
		{Name: "txn-byte-limit", Kind: Size, Unit: kib, Min: 300 * kib, Max: 1 << 45, Default: "64M", Rare: true,
			IBM: "TXNBytelimit", Help: "data between two commits of the index, in KB if no unit is given"},
		{Name: "tcp-window-size", Kind: Size, Unit: kib, Max: 64 * mib, Default: "0", Topic: TopicShare, Rare: true,
			IBM: "TCPWindowsize",
			Help: "send and receive buffer of the TCP connection to a share, in KB if no unit is given; 0: as the operating " +
				"system sets it"},
		{Name: "tcp-buffer-size", Kind: Size, Unit: kib, Min: kib, Max: 512 * kib, Default: "256K", Topic: TopicShare,
			Rare: true, IBM: "TCPBuffsize", Also: "TCPBUFSIZE", Own: "TCPBUFFERSIZE",
			Help: "how much one write hands to the TCP connection to a share, in KB if no unit is given"},
	}))
}

// dataOptions configure how file content is read and compressed.
func dataOptions() []Option {
	return slices.Concat(grouped(GroupCompression, 0, []Option{
		{Name: "compression", Kind: Choice, Choices: []string{"auto yes true on", "off no false", "fastest", "better", "max"},
			Default: "auto", IBM: "COMPRESSIon", Help: "auto, off, fastest, better or max; yes is auto, no is off"},
		{Name: "compression-level", Kind: Int, Min: 1, Max: 4, Auto: true, Default: "auto", Rare: true,
			Help: "1 (fastest) to 4 (smallest), instead of a word; auto: as compression says"},
		{Name: "deduplication", Kind: Bool, Default: "yes", Barred: NotFlag, IBM: "DEDUPLication",
			Help: "store equal data once; always on, so no has no effect"},
	}), grouped(GroupReading, 0, []Option{
		{Name: "copy-serialization", Kind: Choice,
			Choices: []string{"shared-static sharedstatic shrstatic", "static",
				"shared-dynamic shareddynamic shrdynamic", "dynamic"},
			Default: "shared-dynamic", Rare: true,
			Help: "how to back up changing files: static, shared-static, shared-dynamic or dynamic"},
		{Name: "changing-retries", Kind: Int, Max: 4, Default: "4", Rare: true, IBM: "CHAngingretries",
			Help: "how often to reread a file that changed meanwhile (shared-static and shared-dynamic)"},
		{Name: "with-atime", Kind: Bool, Default: "no", Rare: true, Help: "store access times"},
		{Name: "checkpoint", Kind: Duration, Default: "30m", Rare: true,
			Help: "first backup of a source: save a partial snapshot after this time, then at growing intervals; 0: never"},
		{Name: "batch-reads", Kind: Bool, Default: "yes", Topic: TopicHowFast, Rare: true,
			Help: "read the small files of a directory together (io_uring, Linux 5.19)"},
		{Name: "read-order", Kind: Choice, Choices: []string{"auto", "inode", "extent"}, Default: "auto", Topic: TopicHowFast,
			Rare: true,
			Help: "order of reading small files in a directory: inode, extent (position on the disk, Linux), or auto: extent " +
				"on a rotational disk, inode on others"},
		{Name: "remember-names", Kind: Bool, Default: "yes", Topic: TopicHowFast, Rare: true,
			Help: "do not list unchanged directories again while their file system stays mounted (Linux, where timestamps are " +
				"reliable)"},
		{Name: "reread-days", Kind: Int, Max: 3650, Default: "90", Rare: true,
			Help: "compare each unchanged file with the snapshot at least once in this many days, some after each backup; 0: " +
				"never"},
		{Name: "memory-efficient-backup", Kind: Choice, Choices: []string{"yes", "no", "diskcachemethod"}, Default: "yes",
			Barred: NotFlag, IBM: "MEMORYEFficientbackup",
			Help: "memory is always limited (see memory), so no has no effect"},
	}))
}

// selectionOptions select what is backed up.
func selectionOptions() []Option {
	return grouped(GroupSelection, 0, []Option{
		{Name: "exclude", Short: "e", Kind: List, Own: "EXCLUDEPATTERN", Help: "exclude objects that match the glob pattern"},
		{Name: "iexclude", Kind: List, Rare: true, Own: "IEXCLUDEPATTERN", Help: "the same, ignoring case"},
		{Name: "exclude-file", Kind: List, Help: "read patterns of exclude from a file"},
		{Name: "iexclude-file", Kind: List, Rare: true, Help: "read patterns of iexclude from a file"},
		{Name: "exclude-if-present", Kind: List, Rare: true,
			Help: "exclude the contents of directories with a file NAME, with NAME:HEADER if it starts with HEADER"},
		{Name: "exclude-caches", Kind: Bool, Default: "no", Help: "exclude cache folders; those with a valid CACHEDIR.TAG"},
		{Name: "exclude-larger-than", Kind: Size, Unit: 1, Help: "exclude files larger than this"},
		{Name: "exclude-nodump", Kind: Bool, Default: "no", Rare: true,
			Help: "exclude objects with the nodump flag (chattr +d)"},
		{Name: "exclude-time-machine", Kind: Bool, Rare: true,
			Help: "leave out what Time Machine excludes, by attribute or by its settings (default: yes on macOS)"},
		{Name: "ignore-file", Default: ".tidemarkignore", Rare: true,
			Help: "name of files with patterns to exclude below their directory; empty: none"},
		{Name: "one-file-system", Short: "x", Kind: Bool, Default: "no",
			Help: "do not enter other file systems below a source"},
		{Name: "pseudo-file-systems", Kind: Bool, Default: "no", Rare: true,
			Help: "enter /proc, /sys and similar file systems below a source"},
		{Name: "domain", Kind: Domain, Rare: true, IBM: "DOMain",
			Help: "file systems to back up if no path is named; ALL-LOCAL: all of this machine; -/path leaves one out"},
		{Name: "require-mount", Kind: List, Rare: true,
			Help: "path of a source, or above one, where something must be mounted; if not, the source is missing"},
		{Name: "shrink-limit", Kind: Percent, Default: "50%", Rare: true,
			Help: "part of its files or bytes that a source may lose; more makes the backup incomplete"},
		{Name: "inclexcl", Kind: List, Rare: true, IBM: "INCLExcl",
			Help: "read include and exclude statements from a file"},
		{Name: "subdir", Kind: Bool, Default: "yes", Rare: true, IBM: "SUbdir",
			Help: "back up the contents of directories below a source; no: keep them empty"},
	})
}

// outputOptions select what is printed.
func outputOptions() []Option {
	return grouped(GroupOutput, 0, []Option{
		{Name: "json", Kind: Bool, Default: "no", Help: "print one JSON object per line"},
		{Name: "quiet", Short: "q", Kind: Bool, Default: "no",
			Help: "print errors and results only; of a backup, the snapshot ID"},
		{Name: "verbose", Short: "v", Kind: Count, Default: "0", Help: "print more: every remark about an object"},
		{Name: "report", Kind: Choice, Choices: []string{"short", "full"}, Default: "short", Rare: true,
			Help: "report at the end: short or full (as in TSM)"},
		{Name: "error-log", Kind: Path, Rare: true, IBM: "ERRORLOGName",
			Help: "append warnings and failures to this file; of more than 10 MiB, it is renamed to NAME.old"},
		{Name: "session-log", Kind: Path, Rare: true, IBM: "SCHEDLOGName",
			Help: "append messages and full reports of backups and restores to this file, as above"},
		{Name: "progress-interval", Kind: Duration, Default: "5m", Rare: true,
			Help: "time between two lines of progress without a terminal"},
	})
}
