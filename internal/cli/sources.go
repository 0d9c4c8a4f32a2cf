package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/scope"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// presentSources records all sources in the label of a job, each once, and has it back up those that are there.
func (a *app) presentSources(given []string, job *backup.Job) error {
	var sources, paths []string
	for _, path := range given {
		source, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("find source %s: %w", path, err)
		}
		if !slices.Contains(sources, source) {
			sources, paths = append(sources, source), append(paths, path)
		}
	}
	absent, err := notMounted(a.spec.RequireMount(), sources, localfs.Mounts)
	if err != nil {
		return err
	}
	var present, gone []string
	var reasons []error
	for i, source := range sources {
		if _, err := os.Lstat(source); missing(err) && absent[source] == nil {
			absent[source] = backup.ErrMissing
		}
		if why := absent[source]; why == nil {
			present = append(present, paths[i])
		} else {
			gone = append(gone, human.Printable(paths[i]))
			reasons = append(reasons, why)
		}
	}
	switch {
	case len(present) == 0:
		return fmt.Errorf("source %s: %w", strings.Join(gone, ", "), reasons[0])
	case len(gone) > 0:
		if job.Source.Root, err = backup.Sources(present); err != nil {
			return err
		}
	}
	job.Label.Sources, job.Source.Absent = sources, absent
	return nil
}

// entered returns what a path with ".", at its end, or ".." leads to as the kernel walks it: a person who is in a
// folder means that one, not the link that led there, and above it is the folder that holds it. A path that leads there
// by its text alone stays as it is, with links in it.
func entered(path string) (string, error) {
	parts := strings.Split(strings.TrimRight(path, "/"), "/")
	base := parts[len(parts)-1]
	if base != "." && !slices.Contains(parts, "..") {
		return path, nil
	}
	at, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("source %s: %w", path, err)
	}
	byText, textErr := os.Lstat(at)
	walked, err := os.Lstat(path)
	if err != nil && textErr != nil || err == nil && textErr == nil && os.SameFile(walked, byText) {
		return path, nil // what is missing is reported with the other sources
	}
	if err != nil {
		return "", fmt.Errorf("source %s: %w", path, err)
	}
	if !filepath.IsAbs(path) {
		wd, err := unix.Getwd() // os.Getwd says how the shell came there
		if err != nil {
			return "", fmt.Errorf("source %s: %w", path, os.NewSyscallError("getwd", err))
		}
		parts = append([]string{wd}, parts...)
	}
	name := ""
	if base != "." && base != ".." {
		parts, name = parts[:len(parts)-1], base // of a link, only itself is meant
	}
	dir, err := filepath.EvalSymlinks(strings.Join(parts, "/"))
	if err != nil {
		return "", fmt.Errorf("source %s: %w", path, err)
	}
	return filepath.Join(dir, name), nil
}

// notMounted returns the sources at or below a required mount point where nothing is mounted, and the reason.
func notMounted(required, sources []string, mounts func() ([]localfs.Mount, error)) (map[string]error, error) {
	absent := map[string]error{}
	if len(required) == 0 {
		return absent, nil
	}
	for _, at := range required {
		if !filepath.IsAbs(at) {
			return nil, usagef("--require-mount %s: write an absolute path", at)
		}
		_, _ = os.Stat(at + "/.") // an automounter mounts on access
	}
	all, err := mounts()
	if err != nil {
		return nil, fmt.Errorf("find what is mounted: %w", err)
	}
	for _, at := range required {
		real := scope.Resolve(at)
		if slices.ContainsFunc(all, func(m localfs.Mount) bool { return m.Path == real && m.Type != "autofs" }) {
			continue
		}
		for _, source := range sources {
			if scope.Within(source, at) {
				absent[source] = fmt.Errorf("%s is not mounted", human.Printable(at))
			}
		}
	}
	return absent, nil
}

// below reports whether an absolute path lies below a source.
func below(absolute, source string) bool {
	source, err := filepath.Abs(source)
	return err == nil && absolute != source && scope.Within(absolute, source)
}

// missing reports whether an error means that the path does not exist.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// linkWithSlash refuses an empty path, and a symbolic link with a slash at its end. Some programs take the latter for
// the target of the link, while a snapshot would contain the link only.
func linkWithSlash(path string) error {
	clean := filepath.Clean(path)
	if path == "" {
		return errors.New("one of the sources is empty: name a path, or . for the working directory")
	}
	if clean == path || !strings.HasSuffix(path, "/") {
		return nil
	}
	if info, err := os.Lstat(clean); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	target, err := filepath.EvalSymlinks(clean)
	if err != nil {
		target = "its target"
	}
	return fmt.Errorf("source %q is a symbolic link: name %s to back up what it points to, or %s for the link itself",
		path, target, clean)
}

// absoluteSource returns the absolute path of a source, which need not exist.
func absoluteSource(path string) (string, error) {
	if err := errors.Join(checkLocalSource(path), linkWithSlash(path)); err != nil {
		return "", &usageError{err}
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		err = fmt.Errorf("find source %s: %w", path, err)
	}
	return absolute, err
}

// linkedSource refuses a source that is a symbolic link: a job would back up the link alone, and succeed.
func linkedSource(path string) error {
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("source %s is a symbolic link that leads nowhere: correct it", human.Printable(path))
	}
	return fmt.Errorf("source %s is a symbolic link, and only the link would be backed up: name what it leads to: %s",
		human.Printable(path), human.Printable(target))
}

// domain returns the file systems of DOMAIN, and the options with their rules; no path if it is not set.
func (a *app) domain() (*options.Spec, []string, error) {
	spec := a.spec
	if a.allLocal {
		spec = spec.WithDefault("domain", options.AllLocal) // as IBM's client has it
	}
	if len(spec.Domain()) == 0 {
		return spec, nil, nil
	}
	mounts, err := localfs.Mounts()
	if err != nil {
		return nil, nil, fmt.Errorf("find the file systems of DOMAIN: %w", err)
	}
	return spec.ForDomain(mounts)
}

// choose decides what a backup by some options takes of its sources.
func (a *app) choose(ctx context.Context, spec *options.Spec, sources []string) (*scope.Scope, error) {
	at, err := a.place.Location()
	if err != nil {
		return nil, err
	}
	var copies location.Location
	if to := spec.Job().CopyTo; to != "" {
		if copies, err = place.Parse(to); err != nil { // its disk is not connected
			copies = location.Location{}
		}
	}
	chosen, err := scope.New(ctx, scope.Config{Spec: spec, Env: a.Env, Sources: sources, Note: a.print.Note,
		Own: [][2]string{{at.Folder, "the repository"}, {copies.Folder, "the repository of COPYTO"},
			{spec.Cache().Dir, "the cache"}}})
	if chosen == nil {
		return nil, err
	}
	a.warn(chosen.Warnings)
	if err != nil {
		return nil, &usageError{err}
	}
	return chosen, nil
}

// applyRules has a job take what the rules of some options include. A stream has no rules.
func (a *app) applyRules(ctx context.Context, spec *options.Spec, r *repo.Repository, job *backup.Job) error {
	if job.Stdin != nil {
		return nil
	}
	// The cache must exist before it can be excluded under all its names.
	if err := r.Index().Open(); err != nil {
		return err
	}
	chosen, err := a.choose(ctx, spec, job.Label.Sources)
	if err != nil {
		return err
	}
	job.Source.Rules, job.Source.Skip = chosen.Rules, chosen.Skip
	for _, rule := range chosen.Rules.List() {
		job.Label.Rules = append(job.Label.Rules, rule.String())
	}
	a.noteExcluded(job)
	return nil
}

// noteExcluded reports each source that a rule excludes.
func (a *app) noteExcluded(job *backup.Job) {
	for _, source := range job.Label.Sources {
		if _, d := job.Source.Rules.Root(source); d.Verdict == rules.Exclude && d.Rule != nil {
			a.print.Note(fmt.Sprintf("source %s is excluded by the rule %q", human.Printable(source), d.Rule.String()))
		}
	}
}

// pathLists are files that list the paths to back up.
type pathLists struct{ patterns, verbatim, raw []string }

// register adds the flags.
func (l *pathLists) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&l.patterns, "files-from", nil,
		"read paths from a file, one per line; globs are expanded, # starts a comment, - is standard input")
	flags.StringArrayVar(&l.verbatim, "files-from-verbatim", nil, "the same, but each line is taken literally")
	flags.StringArrayVar(&l.raw, "files-from-raw", nil,
		"the same, but paths are taken literally and end with a NUL byte, as from find -print0")
	help.Rare(flags, "files-from-verbatim", "files-from-raw")
}

// given reports whether a list was named.
func (l *pathLists) given() bool { return len(l.patterns)+len(l.verbatim)+len(l.raw) > 0 }

// read appends the listed paths to args. A malformed pattern is a filepath.ErrBadPattern.
func (l *pathLists) read(stdin io.Reader, args []string) ([]string, error) {
	all := args
	for _, name := range l.patterns {
		lines, err := readList(stdin, name, "\n")
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			found, err := filepath.Glob(line)
			if err != nil {
				return nil, fmt.Errorf("%s: pattern %q: %w", name, line, err)
			}
			if len(found) == 0 {
				found = []string{line} // reported as missing, like an argument
			}
			all = append(all, found...)
		}
	}
	for _, name := range l.verbatim {
		lines, err := readList(stdin, name, "\n")
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	for _, name := range l.raw {
		names, err := readList(stdin, name, "\x00")
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	return all, nil
}

// readList returns the entries of a list that are not empty.
func readList(stdin io.Reader, name, separator string) ([]string, error) {
	var content []byte
	var err error
	if name == "-" {
		content, err = io.ReadAll(stdin)
	} else {
		content, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read list of paths: %w", err)
	}
	var parts []string
	for part := range bytes.SplitSeq(content, []byte(separator)) {
		if len(part) > 0 {
			parts = append(parts, string(part))
		}
	}
	return parts, nil
}
