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
		selectionOptions(), jobOptions(), metricsOptions(), outputOptions())
}

// placeOptions locate and unlock the repository.
func placeOptions() []Option {
	return []Option{
		{Name: "repo", Short: "r", Group: GroupRepository, Type: Type{Kind: Path}, Own: "REPOSITORY TIDEMARK_REPOSITORY",
			Help: "a folder, smb://..., s3://... or sftp://...; LABEL=name/folder or UUID=id/folder " +
				"of a disk; default: a folder of the user's data directory"},
		{Name: "option-file", Group: GroupRepository, Rare: true, Type: Type{Kind: Path}, Own: "OPTIONFILE TIDEMARK_OPTIONS",
			Barred: NotFile, Help: "read options from this file instead of the usual places"},
		{Name: "server-name", Group: GroupRepository, Rare: true, Type: Type{Kind: String}, Barred: NotFile,
			Help: "use this stanza of the option file (default: the one that DEFAULTSERVER names, or the first)"},
		{Name: "limit-upload", Group: GroupRepository, Topic: TopicHowFast, Rare: true, Default: "0",
			Type: Type{Kind: Size, Unit: kib},
			Help: "limit of uploads, in KiB/s if no unit is given; 0: no limit"},
		{Name: "limit-download", Group: GroupRepository, Topic: TopicHowFast, Rare: true, Default: "0",
			Type: Type{Kind: Size, Unit: kib},
			Help: "limit of downloads, in KiB/s if no unit is given; 0: no limit"},

		{Name: "password", Group: GroupKeys, Type: Type{Kind: String}, Barred: NotFlag | NotFile, Secret: true,
			Help: "passphrase of the repository; only from the environment, since other users can see a command line"},
		{Name: "password-file", Short: "p", Group: GroupKeys, Type: Type{Kind: Path},
			Help: "file whose first line is the passphrase"},
		{Name: "password-command", Group: GroupKeys, Rare: true, Type: Type{Kind: String},
			Help: "command whose first line of output is the passphrase"},
		{Name: "key-file", Group: GroupKeys, Rare: true, Type: Type{Kind: Path},
			Help: "key file that opens the repository instead of a passphrase"},
	}
}

// cacheOptions configure the local cache.
func cacheOptions() []Option {
	return []Option{
		{Name: "cache-dir", Group: GroupCache, Rare: true, Type: Type{Kind: Path},
			TSM:  TSM{Keyword: "DEDUPCACHEPath", Default: "install directory"},
			Help: "folder of the local cache (default: in the user's cache directory)"},
		{Name: "no-cache", Group: GroupCache, Rare: true, Type: Type{Kind: Bool}, Default: "no",
			Help: "use no local cache: slower, but otherwise the same"},
		{Name: "dedup-cache", Group: GroupCache, Rare: true, Type: Type{Kind: Bool}, Default: "yes",
			TSM:  TSM{Keyword: "ENABLEDEDUPCache", Default: "yes"},
			Help: "keep the index of stored data on this machine; no is the same as no-cache"},
		{Name: "dedup-cache-size", Group: GroupCache, Rare: true, Type: Type{Kind: Size, Unit: mib, Min: mib, Max: 1 << 40},
			Default: "256M", TSM: TSM{Keyword: "DEDUPCACHESize", Default: "256 (MB)"},
			Help: "maximum size of the local cache of tree data, in MB if no unit is given"},
	}
}

// workOptions set concurrency, memory and transfer sizes.
func workOptions() []Option {
	workers := Type{Kind: Int, Min: 1, Max: 256, Auto: true}
	return []Option{
		{Name: "resource-utilization", Group: GroupParallel, Type: Type{Kind: Int, Min: 1, Max: 10, Auto: true},
			Default: "auto", TSM: TSM{Keyword: "RESOURceutilization", Default: "unset"},
			Help: "how much runs in parallel, 1 (least) to 10: scanners, readers, compressors and uploads; " +
				"auto: by processors and disks"},
		{Name: "scanners", Group: GroupParallel, Rare: true, Type: workers, Default: "auto",
			Help: "directories scanned at the same time; auto: see resource-utilization"},
		{Name: "readers", Group: GroupParallel, Rare: true, Type: workers, Default: "auto",
			Help: "files read at the same time"},
		{Name: "compressors", Group: GroupParallel, Rare: true, Type: workers, Default: "auto",
			Help: "workers that chunk, hash and compress"},
		{Name: "uploads", Group: GroupParallel, Rare: true, Type: workers, Default: "auto",
			Help: "packs uploaded at the same time"},
		{Name: "memory", Group: GroupParallel, Rare: true, Type: Type{Kind: Size, Unit: mib, Min: 32 * mib, Max: 1 << 40},
			Default: "96M", Help: "memory for data in transit, in MB if no unit is given"},

		{Name: "txn-byte-limit", Group: GroupTransfer, Rare: true,
			Type:    Type{Kind: Size, Unit: kib, Min: 300 * kib, Max: 1 << 45},
			Default: "64M", TSM: TSM{Keyword: "TXNBytelimit", Default: "25600 (KB)"},
			Help: "data between two commits of the index, in KB if no unit is given"},
		{Name: "tcp-window-size", Group: GroupTransfer, Rare: true, Type: Type{Kind: Size, Unit: kib, Min: 0, Max: 64 * mib},
			Topic: TopicShare, Default: "0", TSM: TSM{Keyword: "TCPWindowsize", Default: "63 (KB)"},
			Help: "send and receive buffer of the TCP connection to a share, in KB if no unit is given; 0: as the " +
				"operating system sets it"},
		{Name: "tcp-buffer-size", Group: GroupTransfer, Rare: true,
			Type:  Type{Kind: Size, Unit: kib, Min: kib, Max: 512 * kib},
			Topic: TopicShare, Default: "256K", TSM: TSM{Keyword: "TCPBuffsize", Default: "32 (KB)", Also: "TCPBUFSIZE"},
			Own:  "TCPBUFFERSIZE",
			Help: "how much one write hands to the TCP connection to a share, in KB if no unit is given"},
	}
}

// dataOptions configure how file content is read and compressed.
func dataOptions() []Option {
	return []Option{
		{Name: "compression", Group: GroupCompression, Default: "auto", TSM: TSM{Keyword: "COMPRESSIon", Default: "no"},
			Type: Type{Kind: Choice, Choices: []string{"auto yes true on", "off no false", "fastest", "better", "max"}},
			Help: "auto, off, fastest, better or max; yes is auto, no is off"},
		{Name: "compression-level", Group: GroupCompression, Rare: true, Type: Type{Kind: Int, Min: 1, Max: 4, Auto: true},
			Default: "auto", Help: "1 (fastest) to 4 (smallest), instead of a word; auto: as compression says"},
		{Name: "deduplication", Group: GroupCompression, Type: Type{Kind: Bool}, Default: "yes",
			TSM: TSM{Keyword: "DEDUPLication", Default: "no"}, Barred: NotFlag,
			Help: "store equal data once; always on, so no has no effect"},

		{Name: "copy-serialization", Group: GroupReading, Rare: true, Default: "shared-dynamic",
			TSM: TSM{Default: "shrstatic"},
			Type: Type{Kind: Choice, Choices: []string{"shared-static sharedstatic shrstatic", "static",
				"shared-dynamic shareddynamic shrdynamic", "dynamic"}},
			Help: "how to back up changing files: static, shared-static, shared-dynamic or dynamic"},
		{Name: "changing-retries", Group: GroupReading, Rare: true, Type: Type{Kind: Int, Min: 0, Max: 4}, Default: "4",
			TSM:  TSM{Keyword: "CHAngingretries", Default: "4"},
			Help: "how often to reread a file that changed meanwhile (shared-static and shared-dynamic)"},
		{Name: "with-atime", Group: GroupReading, Rare: true, Type: Type{Kind: Bool}, Default: "no",
			Help: "store access times"},
		{Name: "checkpoint", Group: GroupReading, Rare: true, Type: Type{Kind: Duration}, Default: "30m",
			Help: "first backup of a source: save a partial snapshot after this time, then at growing intervals; 0: never"},
		{Name: "batch-reads", Group: GroupReading, Topic: TopicHowFast, Rare: true, Type: Type{Kind: Bool}, Default: "yes",
			Help: "read the small files of a directory together (io_uring, Linux 5.19)"},
		{Name: "direct-reads", Group: GroupReading, Topic: TopicHowFast, Rare: true, Type: Type{Kind: Bool}, Default: "yes",
			Help: "bypass the page cache for small files that are not in it (Linux 6.5, ext4 and XFS, with " +
				"batch-reads)"},
		{Name: "read-order", Group: GroupReading, Topic: TopicHowFast, Rare: true, Default: "auto",
			Type: Type{Kind: Choice, Choices: []string{"auto", "inode", "extent"}},
			Help: "order of reading small files in a directory: inode, extent (position on the disk, Linux), " +
				"or auto: extent on a rotational disk, inode on others"},
		{Name: "remember-names", Group: GroupReading, Topic: TopicHowFast, Rare: true, Type: Type{Kind: Bool}, Default: "yes",
			Help: "do not list unchanged directories again while their file system stays mounted " +
				"(Linux, where timestamps are reliable)"},
		{Name: "reread-days", Group: GroupReading, Rare: true, Type: Type{Kind: Int, Min: 0, Max: 3650}, Default: "90",
			Help: "compare each unchanged file with the snapshot at least once in this many days, some after " +
				"each backup; 0: never"},
		{Name: "memory-efficient-backup", Group: GroupReading, Default: "yes", Barred: NotFlag,
			Type: Type{Kind: Choice, Choices: []string{"yes", "no", "diskcachemethod"}},
			TSM:  TSM{Keyword: "MEMORYEFficientbackup", Default: "no"},
			Help: "memory is always limited (see memory), so no has no effect"},
	}
}

// selectionOptions select what is backed up.
func selectionOptions() []Option {
	list := Type{Kind: List}
	return []Option{
		{Name: "exclude", Short: "e", Group: GroupSelection, Type: list, Own: "EXCLUDEPATTERN",
			Help: "exclude objects that match the glob pattern"},
		{Name: "iexclude", Group: GroupSelection, Rare: true, Type: list, Own: "IEXCLUDEPATTERN",
			Help: "the same, ignoring case"},
		{Name: "exclude-file", Group: GroupSelection, Type: list, Help: "read patterns of exclude from a file"},
		{Name: "iexclude-file", Group: GroupSelection, Rare: true, Type: list, Help: "read patterns of iexclude from a file"},
		{Name: "exclude-if-present", Group: GroupSelection, Rare: true, Type: list,
			Help: "exclude the contents of directories with a file NAME, with NAME:HEADER if it starts with HEADER"},
		{Name: "exclude-caches", Group: GroupSelection, Type: Type{Kind: Bool}, Default: "no",
			Help: "exclude cache folders; those with a valid CACHEDIR.TAG"},
		{Name: "exclude-larger-than", Group: GroupSelection, Type: Type{Kind: Size, Unit: 1},
			Help: "exclude files larger than this"},
		{Name: "exclude-nodump", Group: GroupSelection, Rare: true, Type: Type{Kind: Bool}, Default: "no",
			Help: "exclude objects with the nodump flag (chattr +d)"},
		{Name: "exclude-time-machine", Group: GroupSelection, Rare: true, Type: Type{Kind: Bool},
			Help: "leave out what Time Machine excludes, by attribute or by its settings (default: yes on macOS)"},
		{Name: "ignore-file", Group: GroupSelection, Rare: true, Type: Type{Kind: String}, Default: ".tidemarkignore",
			Help: "name of files with patterns to exclude below their directory; empty: none"},
		{Name: "one-file-system", Short: "x", Group: GroupSelection, Type: Type{Kind: Bool}, Default: "no",
			Help: "do not enter other file systems below a source"},
		{Name: "pseudo-file-systems", Group: GroupSelection, Rare: true, Type: Type{Kind: Bool}, Default: "no",
			Help: "enter /proc, /sys and similar file systems below a source"},
		{Name: "domain", Group: GroupSelection, Rare: true, Type: Type{Kind: Domain},
			TSM:  TSM{Keyword: "DOMain", Default: "all-local"},
			Help: "file systems to back up if no path is named; ALL-LOCAL: all of this machine; -/path leaves one out"},
		{Name: "require-mount", Group: GroupSelection, Rare: true, Type: list,
			Help: "path of a source, or above one, where something must be mounted; if not, the source is missing"},
		{Name: "shrink-limit", Group: GroupSelection, Rare: true, Type: Type{Kind: Percent}, Default: "50%",
			Help: "part of its files or bytes that a source may lose; more makes the backup incomplete"},
		{Name: "inclexcl", Group: GroupSelection, Rare: true, Type: list, TSM: TSM{Keyword: "INCLExcl", Default: "none"},
			Help: "read include and exclude statements from a file"},
		{Name: "subdir", Group: GroupSelection, Rare: true, Type: Type{Kind: Bool}, Default: "yes",
			TSM:  TSM{Keyword: "SUbdir", Default: "no"},
			Help: "back up the contents of directories below a source; no: keep them empty"},
	}
}

// outputOptions select what is printed.
func outputOptions() []Option {
	return []Option{
		{Name: "json", Group: GroupOutput, Type: Type{Kind: Bool}, Default: "no", Help: "print one JSON object per " +
			"line"},
		{Name: "quiet", Short: "q", Group: GroupOutput, Type: Type{Kind: Bool}, Default: "no",
			Help: "print errors and results only; of a backup, the snapshot ID"},
		{Name: "verbose", Short: "v", Group: GroupOutput, Type: Type{Kind: Count}, Default: "0",
			Help: "print more: every remark about an object"},
		{Name: "report", Group: GroupOutput, Rare: true, Type: Type{Kind: Choice, Choices: []string{"short", "full"}},
			Default: "short",
			Help:    "report at the end: short or full (as in TSM)"},
		{Name: "error-log", Group: GroupOutput, Rare: true, Type: Type{Kind: Path},
			TSM:  TSM{Keyword: "ERRORLOGName"},
			Help: "append warnings and failures to this file; of more than 10 MiB, it is renamed to NAME.old"},
		{Name: "session-log", Group: GroupOutput, Rare: true, Type: Type{Kind: Path},
			TSM:  TSM{Keyword: "SCHEDLOGName"},
			Help: "append messages and full reports of backups and restores to this file, as above"},
		{Name: "progress-interval", Group: GroupOutput, Rare: true, Type: Type{Kind: Duration}, Default: "5m",
			Help: "time between two lines of progress without a terminal"},
	}
}
