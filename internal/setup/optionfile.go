package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
)

// domain is the keyword of the sources.
const domain = "DOMAIN"

// Settings returns the lines of the option file for answers; given is what the command line sets.
func Settings(repository, policy string, sources []string, given []options.FileLine) []options.FileLine {
	all := []options.FileLine{{Keyword: "REPOSITORY", Values: []string{repository}},
		{Keyword: "POLICY", Values: []string{policy}}, {Keyword: domain, Values: sources}}
	for _, s := range given {
		if s.Keyword != "REPOSITORY" && s.Keyword != "POLICY" && s.Keyword != domain {
			all = append(all, s)
		}
	}
	return all
}

// Sources returns the folders that the DOMAIN lines of an option file name.
func Sources(lines []options.FileLine) (all []string) {
	for _, l := range lines {
		for _, value := range l.Values {
			if l.Keyword == domain && filepath.IsAbs(value) && !slices.Contains(all, value) {
				all = append(all, value)
			}
		}
	}
	return all
}

// WriteSecret writes a line to a file that only this user can read, and replaces one that is there.
func WriteSecret(path, line string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = optionfile.Replace(path, []byte(line+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep a password: %w", err)
	}
	return nil
}
