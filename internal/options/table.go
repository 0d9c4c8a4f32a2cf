package options

import "slices"

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Table returns every option, in the order of the listing.
func Table() []Option {
	return slices.Concat(placeOptions(), shareOptions(), cacheOptions(), policyOptions(), workOptions(), dataOptions(),
		selectionOptions(), outputOptions())
}

// placeOptions say where things are and how they are unlocked.
func placeOptions() []Option {
	return []Option{
		{Name: "repo", Short: "r", Group: GroupRepository, Type: Type{Kind: Path}, Own: "REPOSITORY TIDEMARK_REPOSITORY",
			Help: "where the repository is: a folder, or smb://user@host/share/path (default: a folder of the user's data directory)"},
		{Name: "option-file", Group: GroupRepository, Type: Type{Kind: Path}, Own: "OPTIONFILE TIDEMARK_OPTIONS",
			Barred: NotFile, Help: "read options from this file rather than from the usual places"},
		{Name: "server-name", Group: GroupRepository, Type: Type{Kind: String}, Barred: NotFile,
			Help: "use this stanza of the option file (default: the one DEFAULTSERVER names, or the first)"},

		{Name: "password", Group: GroupKeys, Type: Type{Kind: String}, Barred: NotFlag | NotFile, Secret: true,
			Help: "passphrase of the repository; only from the environment, since others can see a command line"},
		{Name: "password-file", Short: "p", Group: GroupKeys, Type: Type{Kind: Path},
			Help: "file whose first line is the passphrase"},
		{Name: "password-command", Group: GroupKeys, Type: Type{Kind: String},
			Help: "command whose first line of output is the passphrase"},
		{Name: "key-file", Group: GroupKeys, Type: Type{Kind: Path},
			Help: "file with the secret that unlocks the repository instead of a passphrase"},
	}
}

// cacheOptions say what is kept on this machine.
func cacheOptions() []Option {
	return []Option{
		{Name: "cache-dir", Group: GroupCache, Type: Type{Kind: Path},
			TSM:  TSM{Keyword: "DEDUPCACHEPath", Default: "install directory"},
			Help: "where the local cache is kept (default: a folder of the user's cache directory)"},
		{Name: "no-cache", Group: GroupCache, Type: Type{Kind: Bool}, Default: "no",
			Help: "use no local cache: slower, nothing is lost"},
		{Name: "dedup-cache", Group: GroupCache, Type: Type{Kind: Bool}, Default: "yes",
			TSM:  TSM{Keyword: "ENABLEDEDUPCache", Default: "yes"},
			Help: "keep the index of known data on this machine; no is the same as no-cache"},
		{Name: "dedup-cache-size", Group: GroupCache, Type: Type{Kind: Size, Unit: mib, Min: mib, Max: 1 << 40},
			Default: "256M", TSM: TSM{Keyword: "DEDUPCACHESize", Default: "256 (MB)"},
			Help: "most space for tree data kept on this machine, in MB if no unit is named"},
	}
}

// workOptions say how much is done at once.
func workOptions() []Option {
	workers := Type{Kind: Int, Min: 1, Max: 256, Auto: true}
	return []Option{
		{Name: "resource-utilization", Group: GroupParallel, Type: Type{Kind: Int, Min: 1, Max: 10, Auto: true},
			Default: "auto", TSM: TSM{Keyword: "RESOURceutilization", Default: "unset"},
			Help: "how much of the machine to use, 1 (least) to 10; auto goes by processors and disks"},
		{Name: "scanners", Group: GroupParallel, Type: workers, Default: "auto",
			Help: "directories that are scanned at once; auto goes by resource-utilization"},
		{Name: "readers", Group: GroupParallel, Type: workers, Default: "auto", Help: "files that are read at once"},
		{Name: "compressors", Group: GroupParallel, Type: workers, Default: "auto",
			Help: "workers that cut, hash and compress"},
		{Name: "uploads", Group: GroupParallel, Type: workers, Default: "auto", Help: "packs that are stored at once"},
		{Name: "memory", Group: GroupParallel, Type: Type{Kind: Size, Unit: mib, Min: 32 * mib, Max: 1 << 40},
			Default: "96M", Help: "budget of the buffers that hold data under way, in MB if no unit is named"},

		{Name: "txn-byte-limit", Group: GroupTransfer, Type: Type{Kind: Size, Unit: kib, Min: 300 * kib, Max: 1 << 45},
			Default: "256M", TSM: TSM{Keyword: "TXNBytelimit", Default: "25600 (KB)"},
			Help: "how much is sent between two commits of the index, in KB if no unit is named"},
		{Name: "tcp-window-size", Group: GroupTransfer, Type: Type{Kind: Size, Unit: kib, Min: 0, Max: 64 * mib},
			Default: "63K", TSM: TSM{Keyword: "TCPWindowsize", Default: "63 (KB)"},
			Help: "size of the TCP window, in KB if no unit is named; 0 leaves it to the operating system; not used yet"},
		{Name: "tcp-buffer-size", Group: GroupTransfer, Type: Type{Kind: Size, Unit: kib, Min: kib, Max: 512 * kib},
			Default: "32K", TSM: TSM{Keyword: "TCPBuffsize", Default: "32 (KB)", Also: "TCPBUFSIZE"}, Own: "TCPBUFFERSIZE",
			Help: "size of the buffer in front of a TCP connection, in KB if no unit is named; not used yet"},
	}
}

// dataOptions say how file content is read and stored.
func dataOptions() []Option {
	return []Option{
		{Name: "compression", Group: GroupCompression, Default: "auto", TSM: TSM{Keyword: "COMPRESSIon", Default: "no"},
			Type: Type{Kind: Choice, Choices: []string{"auto yes true on", "off no false", "fastest", "better", "max"}},
			Help: "compression: auto, off, fastest, better or max; yes is auto, no is off"},
		{Name: "compression-level", Group: GroupCompression, Type: Type{Kind: Int, Min: 1, Max: 4, Auto: true},
			Default: "auto", Help: "1 (fastest) to 4 (smallest), in place of a word; auto goes by compression"},
		{Name: "deduplication", Group: GroupCompression, Type: Type{Kind: Bool}, Default: "yes",
			TSM: TSM{Keyword: "DEDUPLication", Default: "no"}, Barred: NotFlag,
			Help: "store equal data once; always done, so no has no effect"},

		{Name: "copy-serialization", Group: GroupReading, Default: "shared-dynamic", TSM: TSM{Default: "shrstatic"},
			Type: Type{Kind: Choice, Choices: []string{"shared-static sharedstatic shrstatic", "static",
				"shared-dynamic shareddynamic shrdynamic", "dynamic"}},
			Help: "files that change while they are read: static, shared-static, shared-dynamic or dynamic"},
		{Name: "changing-retries", Group: GroupReading, Type: Type{Kind: Int, Min: 0, Max: 4}, Default: "4",
			TSM:  TSM{Keyword: "CHAngingretries", Default: "4"},
			Help: "how often a file that changed while it was read is read again, under the shared serializations"},
		{Name: "with-atime", Group: GroupReading, Type: Type{Kind: Bool}, Default: "no", Help: "keep access times"},
		{Name: "batch-reads", Group: GroupReading, Type: Type{Kind: Bool}, Default: "yes",
			Help: "read the small files of a directory together (io_uring, Linux 5.19) where the system allows it, " +
				"rather than one after the other"},
		{Name: "direct-reads", Group: GroupReading, Type: Type{Kind: Bool}, Default: "yes",
			Help: "read small files that are not in memory straight from the disk (Linux 6.5, ext4 and XFS, with batch-reads), " +
				"which is less work than by way of the page cache"},
		{Name: "read-order", Group: GroupReading, Default: "auto",
			Type: Type{Kind: Choice, Choices: []string{"auto", "inode", "extent"}},
			Help: "order in which the small files of a directory are read: inode, extent (as their contents lie on the disk, " +
				"Linux), or auto: extent on a disk that turns, inode elsewhere"},
		{Name: "remember-names", Group: GroupReading, Type: Type{Kind: Bool}, Default: "yes",
			Help: "remember the names in each directory as long as its disk stays mounted, and do not read directories again " +
				"whose times are as they were (Linux, on file systems known to keep them)"},
		{Name: "memory-efficient-backup", Group: GroupReading, Default: "yes", Barred: NotFlag,
			Type: Type{Kind: Choice, Choices: []string{"yes", "no", "diskcachemethod"}},
			TSM:  TSM{Keyword: "MEMORYEFficientbackup", Default: "no"},
			Help: "memory is always a budget here (see memory), so no has no effect"},
	}
}

// selectionOptions say what is part of a backup.
func selectionOptions() []Option {
	list := Type{Kind: List}
	return []Option{
		{Name: "exclude", Short: "e", Group: GroupSelection, Type: list, Own: "EXCLUDEPATTERN",
			Help: "leave out what matches the glob pattern"},
		{Name: "iexclude", Group: GroupSelection, Type: list, Own: "IEXCLUDEPATTERN",
			Help: "the same, upper and lower case being equal"},
		{Name: "exclude-file", Group: GroupSelection, Type: list, Help: "read patterns of exclude from a file"},
		{Name: "iexclude-file", Group: GroupSelection, Type: list, Help: "read patterns of iexclude from a file"},
		{Name: "exclude-if-present", Group: GroupSelection, Type: list,
			Help: "leave out the content of directories that hold a file NAME, or NAME:HEADER that begins so"},
		{Name: "exclude-caches", Group: GroupSelection, Type: Type{Kind: Bool}, Default: "no",
			Help: "leave out the content of directories with a valid CACHEDIR.TAG"},
		{Name: "exclude-larger-than", Group: GroupSelection, Type: Type{Kind: Size, Unit: 1},
			Help: "leave out files of more than this size"},
		{Name: "exclude-nodump", Group: GroupSelection, Type: Type{Kind: Bool}, Default: "no",
			Help: "leave out objects with the nodump flag (chattr +d)"},
		{Name: "exclude-time-machine", Group: GroupSelection, Type: Type{Kind: Bool},
			Help: "leave out what is excluded from Time Machine by its sticky attribute (default: yes on macOS)"},
		{Name: "ignore-file", Group: GroupSelection, Type: Type{Kind: String}, Default: ".tidemarkignore",
			Help: "name of the files with patterns to leave out below their directory; empty for none"},
		{Name: "one-file-system", Short: "x", Group: GroupSelection, Type: Type{Kind: Bool}, Default: "no",
			Help: "do not enter other file systems below a source"},
		{Name: "pseudo-file-systems", Group: GroupSelection, Type: Type{Kind: Bool}, Default: "no",
			Help: "enter /proc, /sys and their like below a source"},
		{Name: "inclexcl", Group: GroupSelection, Type: list, TSM: TSM{Keyword: "INCLExcl", Default: "none"},
			Help: "read include and exclude statements from a file"},
		{Name: "subdir", Group: GroupSelection, Type: Type{Kind: Bool}, Default: "yes",
			TSM:  TSM{Keyword: "SUbdir", Default: "no"},
			Help: "back up what lies in the directories below a source; no keeps these directories empty"},
	}
}

// outputOptions say what is told.
func outputOptions() []Option {
	return []Option{
		{Name: "json", Group: GroupOutput, Type: Type{Kind: Bool}, Default: "no", Help: "one JSON object per line"},
		{Name: "quiet", Short: "q", Group: GroupOutput, Type: Type{Kind: Bool}, Default: "no",
			Help: "print errors and results only"},
		{Name: "verbose", Short: "v", Group: GroupOutput, Type: Type{Kind: Count}, Default: "0",
			Help: "tell more: each remark about an object"},
		{Name: "progress-interval", Group: GroupOutput, Type: Type{Kind: Duration}, Default: "5m",
			Help: "time between two lines of progress where there is no terminal"},
	}
}
