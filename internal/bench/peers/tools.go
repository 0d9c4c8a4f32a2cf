package peers

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// place is the working folder of one program. It is not shared, and is removed after a round.
type place struct {
	repo, home, out string
	last            string // the label of its newest backup
	tree            string // what it backs up
}

// kind defines the command of a program for each step. An unsupported step is nil.
type kind struct {
	name, program string
	version       []string
	env           func(place) []string
	prepare       func(place) [][]string // make the repository; not timed
	backup        func(p place, label, tree string) []string
	restore       func(place) []string
	check         func(place) []string
	forget        func(place) [][]string // all snapshots but the newest, and what only they need
	list          func(place) []string
}

// peer is a program that takes part.
type peer struct {
	name, program string
	*kind
}

const secret = "correct horse battery staple"

// How a repository of tidemark is opened.
const (
	unlockPassphrase = "passphrase"
	unlockKeyFile    = "key-file"
)

// keyFileEnv opens a repository with a key file, which init makes.
func keyFileEnv(p place) []string {
	return []string{"TIDEMARK_REPOSITORY=" + p.repo, "TIDEMARK_KEY_FILE=" + p.home + "/key"}
}

func kindOf(name string) (*kind, error) {
	name, _, _ = strings.Cut(name, "@")
	all := kinds()
	var names []string
	for i := range all {
		if all[i].name == name {
			return &all[i], nil
		}
		names = append(names, all[i].name)
	}
	return nil, fmt.Errorf("no peer %q; there are %v", name, names)
}

// kinds returns the known programs, tidemark first. Arguments exclude the program itself.
func kinds() []kind {
	return append(repositories(), kind{
		name: "tar", program: "tar", version: []string{"--version"},
		backup: func(p place, label, tree string) []string {
			return shell(`tar -C "$1" -cf - . | zstd -q -3 -o "$2"`, tree, p.repo+"/"+label+".tar.zst")
		},
		restore: func(p place) []string {
			return shell(`zstd -dc "$1" | tar -C "$2" -xf -`, p.repo+"/"+p.last+".tar.zst", p.out)
		},
		check: func(p place) []string { return shell(`zstd -q -t "$1"`, p.repo+"/"+p.last+".tar.zst") },
	}, kind{
		name: "rsync", program: "rsync", version: []string{"--version"},
		backup: func(p place, _, tree string) []string {
			return []string{"-a", "--delete", tree + "/", p.repo + "/copy/"}
		},
		restore: func(p place) []string { return []string{"-a", p.repo + "/copy/", p.out + "/"} },
	}, kind{
		name: "walk", // this program, which only walks the tree
		backup: func(_ place, _, tree string) []string {
			return []string{kit.Word, tree}
		},
	})
}

// shell returns the arguments of a program that is ignored in favour of a shell.
func shell(script string, args ...string) []string {
	return append([]string{shellWord, "-c", "set -o pipefail 2>/dev/null; " + script, "sh"}, args...)
}

// shellWord stands for the shell in place of the program.
const shellWord = "\x00sh"

func repositories() []kind {
	flat := func(args ...string) [][]string { return [][]string{args} }
	return []kind{
		{
			name: "tidemark", version: []string{"version"},
			env: func(p place) []string {
				return []string{"TIDEMARK_REPOSITORY=" + p.repo, "TIDEMARK_PASSWORD=" + secret}
			},
			prepare: func(place) [][]string { return flat("init", "--quiet") },
			backup:  func(_ place, _, tree string) []string { return []string{"backup", "--quiet", tree} },
			restore: func(p place) []string { return []string{"restore", "--quiet", "latest", "--target", p.out} },
			check:   func(place) []string { return []string{"check", "--quiet", "--read-data"} },
			forget:  keepLast,
			list:    func(place) []string { return []string{"snapshots", "--quiet"} },
		},
		{
			name: "restic", program: "restic", version: []string{"version"},
			env: func(p place) []string {
				return []string{"RESTIC_REPOSITORY=" + p.repo, "RESTIC_PASSWORD=" + secret}
			},
			prepare: func(place) [][]string { return flat("init", "--quiet") },
			backup:  func(_ place, _, tree string) []string { return []string{"backup", "--quiet", tree} },
			restore: func(p place) []string { return []string{"restore", "--quiet", "latest", "--target", p.out} },
			check:   func(place) []string { return []string{"check", "--quiet", "--read-data"} },
			forget:  keepLast,
			list:    func(place) []string { return []string{"snapshots", "--quiet"} },
		},
		{
			name: "borg", program: "borg", version: []string{"--version"},
			env: func(p place) []string {
				return []string{"BORG_REPO=" + p.repo, "BORG_PASSPHRASE=" + secret, "BORG_BASE_DIR=" + p.home}
			},
			prepare: func(place) [][]string { return flat("init", "--encryption", "repokey-blake2") },
			backup: func(_ place, label, tree string) []string {
				return []string{"create", "--compression", "zstd,3", "::" + label, tree}
			},
			restore: func(p place) []string { return []string{"extract", "::" + p.last} },
			check:   func(place) []string { return []string{"check", "--verify-data"} },
			forget:  func(place) [][]string { return [][]string{{"prune", "--keep-last", "1"}, {"compact"}} },
			list:    func(place) []string { return []string{"list"} },
		},
		borg2(), kopia(),
		{
			name: "bupstash", program: "bupstash", version: []string{"--version"},
			env: func(p place) []string {
				return []string{"BUPSTASH_REPOSITORY=" + p.repo + "/r", "BUPSTASH_KEY=" + p.home + "/key"}
			},
			prepare: func(p place) [][]string { return [][]string{{"new-key", "-o", p.home + "/key"}, {"init"}} },
			backup: func(p place, label, tree string) []string {
				return []string{"put", "-q", "--send-log", p.home + "/" + series(label) + ".log", "name=" + label, tree}
			},
			restore: func(p place) []string { return []string{"restore", "-q", "--into", p.out, "name=" + p.last} },
			list:    func(place) []string { return []string{"list", "-q"} },
		},
		{
			name: "rustic", program: "rustic", version: []string{"--version"},
			env: func(p place) []string {
				return []string{"RUSTIC_REPOSITORY=" + p.repo, "RUSTIC_PASSWORD=" + secret, "RUSTIC_NO_PROGRESS=true"}
			},
			prepare: func(place) [][]string { return flat("init") },
			backup:  func(_ place, _, tree string) []string { return []string{"backup", tree} },
			restore: func(p place) []string { return []string{"restore", "latest", p.out} },
			check:   func(place) []string { return []string{"check", "--read-data"} },
			forget:  keepLast,
			list:    func(place) []string { return []string{"snapshots"} },
		},
		vykar(),
	}
}

// borg2 is Borg 2. It finds unchanged files by the newest archive of the same name, so the archives of one tree share a
// name, and a tag identifies each.
func borg2() kind {
	return kind{
		name: "borg2", program: "borg2", version: []string{"--version"},
		env: func(p place) []string {
			return []string{"BORG_REPO=" + p.repo + "/r", "BORG_PASSPHRASE=" + secret, "BORG_BASE_DIR=" + p.home}
		},
		prepare: func(place) [][]string {
			return [][]string{{"repo-create", "--encryption", "aes256-ocb", "--key-location", "repokey"}}
		},
		backup: func(_ place, label, tree string) []string {
			return []string{"create", "--compression", "zstd,3", "--tags", label, "--", series(label), tree}
		},
		restore: func(p place) []string { return []string{"extract", "tags:" + p.last} },
		check:   func(place) []string { return []string{"check", "--verify-data"} },
		forget:  func(place) [][]string { return [][]string{{"prune", "--keep", "1"}, {"compact"}} },
		list:    func(place) []string { return []string{"repo-list"} },
	}
}

// vykar takes the place of its repository, the compression and what to keep from a configuration file only.
func vykar() kind {
	config := func(p place) string { return p.home + "/vykar.yaml" }
	return kind{
		name: "vykar", program: "vykar", version: []string{"--version"},
		env: func(p place) []string {
			return []string{"VYKAR_CONFIG=" + config(p), "VYKAR_PASSPHRASE=" + secret}
		},
		prepare: func(p place) [][]string {
			text := fmt.Sprintf("repositories: [{url: %q}]\ncompression: {algorithm: zstd}\nretention: {keep_last: 1}\n", p.repo)
			return [][]string{shell(`printf %s "$1" > "$2"`, text, config(p)), {"init"}}
		},
		backup:  func(_ place, _, tree string) []string { return []string{"backup", tree} },
		restore: func(p place) []string { return []string{"restore", "latest", p.out} },
		check:   func(place) []string { return []string{"check", "--verify-data"} },
		forget:  func(place) [][]string { return [][]string{{"prune", "--compact"}} },
		list:    func(place) []string { return []string{"list"} },
	}
}

func kopia() kind {
	return kind{
		name: "kopia", program: "kopia", version: []string{"--version"},
		env: func(p place) []string {
			return []string{"KOPIA_CONFIG_PATH=" + p.home + "/kopia.config", "KOPIA_PASSWORD=" + secret,
				"KOPIA_CHECK_FOR_UPDATES=false"}
		},
		prepare: func(p place) [][]string {
			return [][]string{
				{"repository", "create", "filesystem", "--path", p.repo},
				{"policy", "set", "--global", "--compression", "zstd"},
			}
		},
		backup: func(_ place, _, tree string) []string { return []string{"snapshot", "create", "--no-progress", tree} },
		restore: func(p place) []string {
			return []string{"restore", "--no-progress", "--snapshot-time", "latest", p.tree, p.out}
		},
		check: func(place) []string { return []string{"snapshot", "verify", "--verify-files-percent", "100"} },
		forget: func(p place) [][]string {
			return [][]string{
				{"policy", "set", "--global", "--keep-latest", "1", "--keep-hourly", "0", "--keep-daily", "0",
					"--keep-weekly", "0", "--keep-monthly", "0", "--keep-annual", "0"},
				{"snapshot", "expire", "--delete", p.tree}, {"maintenance", "run", "--full", "--safety=none"},
			}
		},
		list: func(place) []string { return []string{"snapshot", "list"} },
	}
}

// keepLast is the command of restic and those that follow it.
func keepLast(place) [][]string { return [][]string{{"forget", "--keep-last", "1", "--prune"}} }

// series returns the name that all backups of the same tree share: the ten files have another than the data.
func series(label string) string {
	if strings.HasPrefix(label, tenLabel) {
		return tenLabel
	}
	return "data"
}
