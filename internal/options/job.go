package options

import (
	"slices"
	"time"
)

// metricsOptions are the options of the metrics of the service.
func metricsOptions() []Option {
	return grouped(GroupNotify, NotEnv, []Option{
		{Name: "metrics-file", Kind: Path, Rare: true,
			Help: "write metrics for the textfile collector of Prometheus to this file"},
		{Name: "metrics-group", Rare: true,
			Help: "let this group read the file and the socket of the metrics, and no others"},
		{Name: "metrics-listen", Rare: true,
			Help: "serve metrics for Prometheus at this address, such as 127.0.0.1:9712 or unix:/run/tidemark.metrics"},
	})
}

// The options that describe a job of the service stand in the option file, one stanza for each job; lines before the
// first stanza apply to all jobs. `tidemark job add` has a flag for each.

// scheduleOptions say when a job runs, and what it keeps and checks.
func scheduleOptions() []Option {
	return grouped(GroupJob, NotEnv, []Option{
		{Name: "schedule",
			Help: `when the service runs the job; hourly, "every 2h", daily, "daily 02:30", "weekly sunday 03:00", monthly, ` +
				"the five fields of cron, or never"},
		{Name: "jitter", Kind: Duration, Default: "2m", Rare: true, Own: "SCHEDULEJITTER",
			Help: "start up to this much later, by a time that is fixed for job and machine"},
		{Name: "quiet-hours", Kind: List, Rare: true,
			Help: "start nothing in these hours and pause what runs; such as 09:00-17:30 or mon-fri 09:00-17:30"},
		{Name: "on-battery", Default: "pause", Rare: true,
			Help: "on battery: pause, run, or run down to a charge such as 50%"},
		{Name: "on-metered", Kind: Choice, Choices: []string{"pause", "run"}, Default: "pause", Rare: true,
			Help: "on a metered network, for a repository on another machine: pause or run"},
		{Name: "on-appear", Kind: Bool, Default: "yes", Rare: true,
			Help: "run when the disk or server of the repository returns and a run is overdue"},
		{Name: "rotate", Kind: List, Rare: true,
			Help: "a further repository: each run of the service uses the connected one whose last backup is oldest"},
		{Name: "keep", Default: "all", Own: "KEEPSNAPSHOTS",
			Help: `snapshots to keep after each run; all, time-machine, or such as "last 3 hourly 24 daily 30 weekly 520"`},
		{Name: "copy-to", Rare: true,
			Help: "second repository, which gets the new snapshots after each run; it has to exist"},
		{Name: "copy-password-file", Kind: Path, Rare: true,
			Help: "file whose first line is the passphrase of copy-to (default: what opens the first repository)"},
		{Name: "copy-keep", Rare: true, Own: "COPYKEEPSNAPSHOTS", Help: "snapshots to keep in copy-to (default: as keep)"},
		{Name: "prune-every", Kind: Duration, Default: "24h", Rare: true,
			Help: "free space at most so often, and only when it pays; 0: never"},
		{Name: "check-every", Kind: Duration, Default: "24h", Rare: true,
			Help: "read back a part of the repository so often; 0: never"},
		{Name: "check-parts", Kind: Int, Min: 1, Max: 1000, Default: "30", Rare: true,
			Help: "number of checks that read back the whole repository"},
		{Name: "drill-every", Kind: Duration, Default: "720h", Rare: true,
			Help: "restore sampled files and compare them so often; 0: never"},
	})
}

// hookOptions are the commands around a run, and its limits.
func hookOptions() []Option {
	return slices.Concat(grouped(GroupJob, NotEnv, []Option{
		{Name: "before-command", Rare: true, Also: "PRESchedulecmd",
			Help: "command before a backup; if it fails, the backup does not start"},
		{Name: "before-unwaited", Rare: true, Also: "PRENSchedulecmd",
			Help: "command that is started before that one; its end and its result do not matter"},
		{Name: "after-command", Rare: true, Also: "POSTSchedulecmd",
			Help: "command after a backup, however it ended; its failure is reported and fails the run"},
		{Name: "after-unwaited", Rare: true, Also: "POSTNSchedulecmd",
			Help: "command that is started before that one; its end and its result do not matter"},
		{Name: "failure-command", Rare: true, Help: "command after a run that failed"},
		{Name: "hook-timeout", Kind: Duration, Default: "10m", Rare: true,
			Help: "end such a command, with its children (not those of setsid), after this time"},
		{Name: "max-run-time", Kind: Duration, Default: "0s", Rare: true,
			Help: "end a run that takes longer, without the time for which it waits; it has failed; 0: no limit"},
		{Name: "stall-after", Kind: Duration, Default: "12h", Rare: true,
			Help: "notify when a step makes no progress for this time; 0: never"},
	}), grouped(GroupReading, 0, []Option{
		{Name: "source-snapshot", Kind: Choice, Choices: []string{"off", "auto", "btrfs", "apfs", "hook"}, Default: "off",
			Rare: true, Help: "read the sources from a snapshot of their file system: auto, btrfs, apfs, hook or off"},
		{Name: "snapshot-command", Rare: true, Barred: NotEnv,
			Help: "command that makes a snapshot of the path in TIDEMARK_SOURCE and prints where it is mounted"},
		{Name: "snapshot-end-command", Rare: true, Barred: NotEnv,
			Help: "command that removes the snapshot of the path in TIDEMARK_SOURCE, mounted at TIDEMARK_SNAPSHOT"},
	}))
}

// notifyOptions say whom a job notifies.
func notifyOptions() []Option {
	return grouped(GroupNotify, NotEnv, []Option{
		{Name: "alert-after", Kind: Duration, Default: "72h", Rare: true,
			Help: "notify when no backup was complete for this time, and the next is overdue by it or by 24h; 0: never"},
		{Name: "notify-limit", Kind: Int, Min: 1, Max: 1000, Default: "5", Rare: true,
			Help: "messages a day about the same kind of event of a job; further ones wait"},
		{Name: "notify-summary", Kind: Bool, Default: "no", Rare: true, Help: "notify each week of how many runs succeeded"},
		{Name: "notify-desktop", Kind: Bool, Default: "yes", Rare: true, Help: "notify on the desktop, if there is one"},
		{Name: "notify-webhook", Rare: true, Help: "URL that gets a POST request with JSON on failure and on silence"},
		{Name: "notify-mail", Kind: List, Rare: true, Help: "mail address for failures and silence"},
		{Name: "mail-server", Rare: true, Help: "SMTP server as host:port; without one, the program sendmail"},
		{Name: "mail-from", Rare: true, Help: "sender of mails (default: user@host)"},
		{Name: "mail-user", Rare: true, Help: "user at the SMTP server"},
		{Name: "mail-password-file", Kind: Path, Rare: true,
			Help: "file whose first line is the password at the SMTP server"},
		{Name: "healthcheck", Rare: true,
			Help: "URL that is requested when a run ends well, with /start at its start and /fail when it fails"},
		{Name: "syslog", Kind: Choice, Choices: []string{"auto", "journal", "syslog", "off"}, Default: "auto", Rare: true,
			Help: "write the service's log to the journal or to syslog too; auto: to the journal if there is one"},
	})
}

// Job is how the service runs a job. Durations of 0 mean never.
type Job struct {
	Schedule, Keep, OnBattery          string
	CopyTo                             string // location; "": no copies
	OnMetered                          string // "pause" or "run"
	Jitter                             time.Duration
	QuietHours, Rotate                 []string
	OnAppear                           bool
	PruneEvery, CheckEvery, DrillEvery time.Duration
	CheckParts                         int
	MaxRunTime, StallAfter             time.Duration
	Hooks                              Hooks
}

// Hooks are commands around a run, for a shell; "" for none.
type Hooks struct {
	Before, After, Failure string
	BeginSource, EndSource string // make and remove a snapshot of a source
	Timeout                time.Duration
	// The option files that contain Before and After.
	BeforeFiles, AfterFiles []string
}

// hooks returns the commands around a run. A command whose end does not matter is started before the other one.
func (s *Spec) hooks() Hooks {
	return Hooks{
		Before: unwaited(s.string("before-unwaited")) + s.string("before-command"),
		After:  unwaited(s.string("after-unwaited")) + s.string("after-command"), Failure: s.string("failure-command"),
		BeginSource: s.string("snapshot-command"), EndSource: s.string("snapshot-end-command"),
		Timeout:     s.duration("hook-timeout"),
		BeforeFiles: []string{s.FileOf("before-command"), s.FileOf("before-unwaited")},
		AfterFiles:  []string{s.FileOf("after-command"), s.FileOf("after-unwaited")},
	}
}

// unwaited returns the line by which a shell starts a command and goes on.
func unwaited(command string) string {
	if command == "" {
		return ""
	}
	return "(\n" + command + "\n) >/dev/null 2>&1 &\n"
}

// Job returns the options of the service. Their syntax beyond that of the table is checked by package job.
func (s *Spec) Job() Job {
	return Job{
		Schedule: s.string("schedule"), Keep: s.string("keep"), OnBattery: s.string("on-battery"),
		OnMetered: s.string("on-metered"), Jitter: s.duration("jitter"),
		QuietHours: s.strings("quiet-hours"), Rotate: s.strings("rotate"), OnAppear: s.bool("on-appear"),
		CopyTo: s.string("copy-to"), PruneEvery: s.duration("prune-every"),
		CheckEvery: s.duration("check-every"), DrillEvery: s.duration("drill-every"), CheckParts: int(s.int("check-parts")),
		MaxRunTime: s.duration("max-run-time"), StallAfter: s.duration("stall-after"),
		Hooks: s.hooks(),
	}
}

// FileOf returns the option file whose line sets an option; "" if none does.
func (s *Spec) FileOf(name string) string {
	one := s.get(name)
	if one.level != fromFile {
		return ""
	}
	return fileOf(one.origin)
}

// Origins returns where each value of an option was set: "file:line", an environment variable or a flag.
func (s *Spec) Origins(name string) (all []string) {
	for _, one := range s.settings[name] {
		all = append(all, one.origin)
	}
	return all
}

// Server returns the stanza of the option file that is in effect: the one of --server-name, of DEFAULTSERVER, or the
// first; "" if the file has none.
func (s *Spec) Server() string { return s.server }

// SourceSnapshot returns how the sources are read from a snapshot of their file system: "off", "auto", "btrfs", "apfs"
// or "hook".
func (s *Spec) SourceSnapshot() string { return s.string("source-snapshot") }

// Notify is where the service reports.
type Notify struct {
	AlertAfter  time.Duration // 0: never
	Limit       int           // messages a day about the same kind of event
	Summary     bool
	Desktop     bool
	Webhook     string // URL
	Healthcheck string // URL
	Mail        Mail
	MetricsFile string
	MetricsAt   string // address
	MetricsFor  string // group that may read them; "": as the system has it
	Syslog      string // "auto", "journal", "syslog" or "off"
}

// Mail is how mails are sent.
type Mail struct {
	To                               []string
	Server, From, User, PasswordFile string
}

// Notify returns where the service reports.
func (s *Spec) Notify() Notify {
	return Notify{
		AlertAfter: s.duration("alert-after"), Limit: int(s.int("notify-limit")), Summary: s.bool("notify-summary"),
		Desktop: s.bool("notify-desktop"), Webhook: s.string("notify-webhook"),
		Healthcheck: s.string("healthcheck"), MetricsFile: s.string("metrics-file"), MetricsAt: s.string("metrics-listen"),
		MetricsFor: s.string("metrics-group"),
		Syslog:     s.string("syslog"),
		Mail: Mail{s.strings("notify-mail"), s.string("mail-server"), s.string("mail-from"), s.string("mail-user"),
			s.string("mail-password-file")},
	}
}

// strings returns the values of a list.
func (s *Spec) strings(name string) (all []string) {
	for _, one := range s.settings[name] {
		all = append(all, one.value.(string))
	}
	return all
}
