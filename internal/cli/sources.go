package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report/human"
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
	absent, err := notMounted(a.spec.Sources().RequireMount, sources, localfs.Mounts)
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
			return "", fmt.Errorf("source %s: find working directory: %w", path, err)
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
		real := resolve(at)
		if slices.ContainsFunc(all, func(m localfs.Mount) bool { return m.Path == real && m.Type != "autofs" }) {
			continue
		}
		for _, source := range sources {
			if within(source, at) {
				absent[source] = fmt.Errorf("%s %w", human.Printable(at), errNotMounted)
			}
		}
	}
	return absent, nil
}

// within reports whether an absolute path is a folder or lies below it.
func within(path, folder string) bool {
	return strings.HasPrefix(path+"/", strings.TrimSuffix(filepath.Clean(folder), "/")+"/")
}

// below reports whether an absolute path lies below a source.
func below(absolute, source string) bool {
	source, err := filepath.Abs(source)
	return err == nil && absolute != source && within(absolute, source)
}

// missing reports whether an error means that the path does not exist.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
