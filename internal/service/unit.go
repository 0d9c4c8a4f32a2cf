package service

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// marker is the first line of a unit that Install may replace and Uninstall may remove.
const marker = "# Written by 'tidemark service install'; it is replaced without notice.\n"

// Config is what a unit is made from.
type Config struct {
	System     bool     // for the system; otherwise for the user
	Program    string   // absolute
	OptionFile string   // absolute
	Writable   []string // local repositories and caches; absolute
	Removable  bool     // a repository is on a disk that may be unmounted
	Commands   bool     // a job runs commands, which may need any right
}

// Unit returns the unit of systemd.
func (c *Config) Unit() (string, error) {
	for _, path := range append([]string{c.Program, c.OptionFile}, c.Writable...) {
		if !filepath.IsAbs(path) || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return "", fmt.Errorf("%q cannot stand in a unit: use an absolute path without control characters", path)
		}
	}
	var b strings.Builder
	b.WriteString(marker + `[Unit]
Description=Tidemark backup
Documentation=man:tidemark-daemon(1)
StartLimitIntervalSec=10min
StartLimitBurst=5

[Service]
Type=notify
`)
	fmt.Fprintf(&b, "ExecStart=%s daemon --option-file %s\n", quote(c.Program, true), quote(c.OptionFile, true))
	b.WriteString(`ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=30s
WatchdogSec=3min
KillMode=mixed
TimeoutStopSec=90s
CPUWeight=idle
IOWeight=10
`)
	if c.System {
		// Commands by hand use the runtime directory too: it stays when the service stops.
		b.WriteString(`StateDirectory=tidemark
StateDirectoryMode=0700
CacheDirectory=tidemark
CacheDirectoryMode=0700
RuntimeDirectory=tidemark
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
Environment=HOME=/root XDG_CACHE_HOME=/var/cache TMPDIR=/var/cache/tidemark
`)
	}
	c.protect(&b)
	target := "default.target"
	if c.System {
		target = "multi-user.target"
	}
	fmt.Fprintf(&b, "\n[Install]\nWantedBy=%s\n", target)
	return b.String(), nil
}

// protect writes what restricts the service. Commands of jobs may need any right. There is no PrivateTmp, since a backup
// of /tmp must see it. SCHED_IDLE and I/O priorities work with RestrictRealtime.
func (c *Config) protect(b *strings.Builder) {
	if c.Commands {
		return
	}
	b.WriteString(`NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
`)
	if !c.System {
		return // the others need a system manager
	}
	b.WriteString(`CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_SYS_NICE
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
`)
	if c.Removable {
		// ReadWritePaths would keep a file system busy after it was unmounted.
		b.WriteString("ProtectSystem=full\n")
		return
	}
	b.WriteString("ProtectSystem=strict\n")
	paths := slices.Clone(c.Writable)
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		fmt.Fprintf(b, "ReadWritePaths=%s\n", quote("-"+path, false))
	}
}

// quote returns a word as units write it. Variables are replaced only in commands.
func quote(word string, command bool) string {
	word = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(word)
	if command {
		word = strings.ReplaceAll(word, "$", "$$")
	}
	return `"` + word + `"`
}
