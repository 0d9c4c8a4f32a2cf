package options

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// Spec is the effective options of a run: immutable, for any number of goroutines.
type Spec struct {
	table      []Option
	settings   map[string][]setting // by option name; a list has any number
	statements []rawLine            // include and exclude statements and INCLEXCL files, in their order
	file       string
	server     string            // stanza of the file; "": it has none
	client     map[string]string // options of IBM's client by their keyword

	domain       []string // file systems of a backup by DOMAIN; nil for others
	domainOrigin string
}

// Client returns the options that concern only 'tidemark dsmc': whether SUBDIR is set to yes, for restores and queries
// as well; the number of DATEFORMAT; and REPLACE, what a restore does with existing files. "": it is not set.
func (s *Spec) Client() (subdir bool, dateFormat, replace string) {
	return s.get("subdir").level > fromDefault && s.bool("subdir"), s.client["DATEFORMAT"], s.client["REPLACE"]
}

// Repository is the location of the repository.
type Repository struct {
	Location string // a path or URL; "" without an option and without a home directory
	Named    bool   // false: the default location
}

// Repository returns the location of the repository.
func (s *Spec) Repository() Repository {
	return Repository{s.string("repo"), s.get("repo").level > fromDefault}
}

// Limits returns the limits of the transfer rates.
func (s *Spec) Limits() report.Limits {
	return report.Limits{Upload: s.int("limit-upload"), Download: s.int("limit-download")}
}

// Keys configure how the repository is unlocked. At most one of Password, PasswordFile and PasswordCommand is set: the
// one with the highest rank. If all are empty, the terminal prompts, or the machine's key file is used.
type Keys struct {
	Password        Secret
	PasswordFile    string
	PasswordCommand string
	CommandFile     string // the option file that contains PasswordCommand; "": none
	KeyFile         string
}

// Logs returns the files to which warnings and failures, and messages and full reports of backups and restores, are
// appended; "": none.
func (s *Spec) Logs() (errors, sessions string) {
	return s.string("error-log"), s.string("session-log")
}

// Files yields the options that name a file or a folder of this machine and are set, and their values.
func (s *Spec) Files() iter.Seq2[string, string] {
	return func(yield func(name, path string) bool) {
		for _, o := range s.table {
			if path := s.string(o.Name); o.Kind == Path && !o.location() && path != "" && !yield(o.Name, path) {
				return
			}
		}
	}
}

// Secret is text that is hidden when it is printed; convert it to string to use it.
type Secret string

const redacted = "(hidden)"

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format hides the secret under every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText hides the secret in JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Keys returns how to unlock the repository.
func (s *Spec) Keys() Keys {
	k := s.secret("", passphrases())
	k.KeyFile = s.string("key-file")
	return k
}

// secret returns where a secret comes from: the one with the highest rank of some options, whose names have a prefix.
func (s *Spec) secret(prefix string, names []string) (k Keys) {
	switch name := s.ranking(names); name {
	case prefix + "password":
		k.Password = Secret(s.string(name))
	case prefix + "password-file":
		k.PasswordFile = s.string(name)
	case prefix + "password-command":
		k.PasswordCommand, k.CommandFile = s.string(name), s.FileOf(name)
	}
	return k
}

// passphrases are the options that give the passphrase; one of them applies.
func passphrases() []string { return []string{"password", "password-file", "password-command"} }

// ranking returns the option whose source ranks highest; "" for none.
func (s *Spec) ranking(names []string) string {
	best, rank := "", fromDefault
	for _, name := range names {
		if from := s.get(name).level; from > rank {
			best, rank = name, from
		}
	}
	return best
}

// checkSecrets rejects two sources of one secret that are of the same rank.
func (s *Spec) checkSecrets(problems *[]error) {
	s.checkOne("the passphrase", passphrases(), problems)
	s.checkOne("the password of the share", logons(), problems)
	s.checkOne("the passphrase of the repository to copy from", prefixed(passphrases()), problems)
	s.checkOne("the password of the share to copy from", prefixed(logons()), problems)
}

func (s *Spec) checkOne(what string, names []string, problems *[]error) {
	winner := s.ranking(names)
	for _, name := range names {
		if other := s.get(name); name != winner && winner != "" && other.level == s.get(winner).level {
			*problems = append(*problems, fmt.Errorf("%w: %s comes from %s as well as %s; give one of them",
				ErrConflict, what, s.get(winner).origin, other.origin))
			return
		}
	}
}

// Parallel configures concurrency and buffers.
type Parallel struct {
	Workers     Workers
	Named       Workers // explicit values, which stay unchanged; 0: from Workers
	Utilization int     // 1 to 10; 0: auto
	Memory      int64   // bytes of buffers for data in flight
}

// Parallel returns the workers for a machine of cpu processors and the media of a job: those of Dial, except explicit
// values.
func (s *Spec) Parallel(cpu int, media Media) Parallel {
	dial := int(s.int("resource-utilization"))
	w := WorkersFor(dial, cpu, media)
	var named Workers
	for name, field := range map[string][2]*int{
		"scanners": {&w.Scanners, &named.Scanners}, "readers": {&w.Readers, &named.Readers},
		"compressors": {&w.Compressors, &named.Compressors}, "uploads": {&w.Uploads, &named.Uploads},
	} {
		if n := int(s.int(name)); n > 0 {
			*field[0], *field[1] = n, n
		}
	}
	return Parallel{w, named, dial, s.int("memory")}
}

// CommitBytes returns how much is stored between two commits of the index.
func (s *Spec) CommitBytes() int64 { return s.int("txn-byte-limit") }

// TCP returns the send and receive buffers of a TCP connection (0: the operating system's) and most bytes of a write.
func (s *Spec) TCP() (window, buffer int64) {
	return s.int("tcp-window-size"), s.int("tcp-buffer-size")
}

// defaultLevel is the initial level for "auto": the second of four.
const defaultLevel = 2

// HardestAuto is the highest level that "auto" uses while the target is the bottleneck. The next one takes 36 MiB for
// each worker and some six times as long, for a few percent.
const HardestAuto = 3

// Compression returns the level: 0 (none) or 1 (fastest) to 4 (smallest); with auto, the initial one. Of the two
// options that set it, the one whose source ranks higher counts; from the same source, compression off wins over any
// level.
func (s *Spec) Compression() (level int, auto bool) {
	level = map[string]int{"off": 0, "fastest": 1, "auto": defaultLevel, "better": 3, "max": 4}[s.string("compression")]
	word, number := s.get("compression"), s.get("compression-level")
	explicit := int(s.int("compression-level"))
	if explicit > 0 && (number.level > word.level || number.level == word.level && level > 0) {
		return explicit, false
	}
	return level, s.string("compression") == "auto"
}

// Serialization determines what happens to a file that changes while it is read.
type Serialization uint8

// The copy serializations, in IBM's words. Their numbers are part of the digests in the directory cache.
const (
	SharedDynamic Serialization = iota // try again, store the last attempt in any case
	SharedStatic                       // try again, then store no content
	Dynamic                            // store the first attempt
	Static                             // store no content of a file that changes
)

// String returns the word for it in options and reports.
func (s Serialization) String() string {
	words := []string{"shared-dynamic", "shared-static", "dynamic", "static"}
	if int(s) < len(words) {
		return words[s]
	}
	return fmt.Sprintf("serialization %d", uint8(s))
}

// Reading configures how files are read.
type Reading struct {
	Serialization Serialization
	Retries       int    // retries of a file that changed, under the shared serializations
	AccessTimes   bool   // store them in the snapshot
	Batches       bool   // small files of a directory together
	Order         string // order of batched files: "auto", "inode" or "extent"
	Names         bool   // cache the names of unchanged directories instead of reading them
	RereadDays    int    // days within which each unchanged file is read again; 0: never
}

// Reading returns the settings for reading files.
func (s *Spec) Reading() Reading {
	r := Reading{
		Retries: int(s.int("changing-retries")), AccessTimes: s.bool("with-atime"), Batches: s.bool("batch-reads"),
		Order: s.string("read-order"), Names: s.bool("remember-names"),
		RereadDays: int(s.int("reread-days")),
	}
	for _, candidate := range []Serialization{SharedDynamic, SharedStatic, Dynamic, Static} {
		if candidate.String() == s.string("copy-serialization") {
			r.Serialization = candidate
		}
	}
	return r
}

// Cache configures the local cache.
type Cache struct {
	Enabled  bool
	Dir      string // "" without an option and without a home directory
	MaxBytes int64  // of tree data
	MaxNamed bool   // false: MaxBytes is the default
}

// Cache returns the settings of the local cache.
func (s *Spec) Cache() Cache {
	return Cache{
		Enabled: !s.bool("no-cache") && s.bool("dedup-cache"), Dir: s.string("cache-dir"),
		MaxBytes: s.int("dedup-cache-size"), MaxNamed: s.get("dedup-cache-size").level > fromDefault,
	}
}

// Output configures the printed output.
type Output struct {
	JSON     bool
	Quiet    bool
	Verbose  int
	Interval time.Duration // between two progress lines without a terminal
	Full     bool          // all figures at the end of a job, not a few lines
}

// Output returns the settings of the printed output.
func (s *Spec) Output() Output {
	return Output{s.bool("json"), s.bool("quiet"), int(s.int("verbose")), s.duration("progress-interval"),
		s.string("report") == "full"}
}

// File returns the path of the option file that was read, "" for none.
func (s *Spec) File() string { return s.file }

// Effective is the effective value of one option, for listings.
type Effective struct {
	Name   string `json:"name"`
	Value  string `json:"value"`  // in effect
	Origin string `json:"source"` // `default`, environment, file and line, or flag
}

// Effective lists the options in the order of the table, a list with a row per element, then the include and exclude
// statements in their order. Options without a value are listed with an empty one. Secrets are hidden.
func (s *Spec) Effective() []Effective {
	var rows []Effective
	for i := range s.table {
		o := &s.table[i]
		settings := s.settings[o.Name]
		if len(settings) == 0 {
			rows = append(rows, Effective{o.Name, "", "default"})
		}
		for _, one := range settings {
			rows = append(rows, Effective{o.Name, o.show(one.value), one.origin})
		}
	}
	for _, st := range s.statements {
		if st.Keyword != "INCLEXCL" {
			rows = append(rows, Effective{"statement", st.Keyword + " " + st.Rest, st.Origin})
		}
	}
	return rows
}

// show formats a value without secrets.
func (o *Option) show(value any) string {
	text := o.format(value)
	if o.Secret {
		return Secret(text).String()
	}
	if o.Kind == Path {
		return withoutPassword(text)
	}
	return text
}

// withoutPassword hides a possible password in the address of a server, well-formed or not. The text before the last @
// is hidden if it contains more than a name.
func withoutPassword(text string) string {
	start := strings.Index(text, "://")
	switch {
	case start >= 0:
		start += len("://")
	case strings.HasPrefix(text, "//"), strings.HasPrefix(text, `\\`):
		start = 2
	case strings.HasPrefix(strings.ToLower(text), "smb:"), strings.HasPrefix(strings.ToLower(text), "cifs:"):
		start = strings.Index(text, ":") + 1
	default:
		return text
	}
	if before := strings.Index(text, "@"); before >= 0 && before < start { // before the scheme
		start = 0
	}
	if at := strings.LastIndex(text, "@"); at > start && strings.ContainsAny(text[start:at], ":%") {
		return text[:start] + redacted + text[at:]
	}
	return text
}

// get returns the setting of an option that is not a list; its value is nil when it has none.
func (s *Spec) get(name string) setting {
	if all := s.settings[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return setting{}
}

// valueOf returns the value of an option that is not a list; the zero value when it has none.
func valueOf[T any](s *Spec, name string) T {
	value, _ := s.get(name).value.(T)
	return value
}

func (s *Spec) string(name string) string          { return valueOf[string](s, name) }
func (s *Spec) bool(name string) bool              { return valueOf[bool](s, name) }
func (s *Spec) percent(name string) float64        { return valueOf[float64](s, name) }
func (s *Spec) int(name string) int64              { return valueOf[int64](s, name) }
func (s *Spec) duration(name string) time.Duration { return valueOf[time.Duration](s, name) }
