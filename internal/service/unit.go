package service

import (
	"fmt"
	"slices"
	"strings"
)

// unitHead is how a unit begins that Install may replace and Uninstall may remove.
const unitHead = "# " + written + "\n"

// Text returns the unit.
func (*Systemd) Text(c *Config) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(unitHead + `[Unit]
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
`)
	fmt.Fprintf(&b, "TimeoutStopSec=%d\n", c.stopSeconds())
	b.WriteString(`CPUWeight=idle
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
	for _, name := range c.Credentials {
		// Not quoted: systemd takes quotes for a part of the path. %E is /etc, or the user's folder of settings.
		fmt.Fprintf(&b, "LoadCredential=%s:%%E/credstore/%s\n", name, name)
	}
	c.protect(&b)
	target := "default.target"
	if c.System {
		target = "multi-user.target"
	}
	fmt.Fprintf(&b, "\n[Install]\nWantedBy=%s\n", target)
	return b.String(), nil
}

// protect writes what restricts the service. Commands of jobs may need any right. Of the capabilities, the first opens
// files by handle, the second writes into the repository of a user, the third keeps the access times of files of
// others, and the last leaves the tier throttle again. Attributes trusted.* would need CAP_SYS_ADMIN, which is nearly
// every right: a backup notes that they are left out. There is no PrivateTmp, since a backup of /tmp must see it.
// SCHED_IDLE and I/O priorities work with RestrictRealtime.
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
	b.WriteString(`CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_DAC_OVERRIDE CAP_FOWNER CAP_SYS_NICE
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
