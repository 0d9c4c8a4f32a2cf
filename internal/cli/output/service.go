package output

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/tidemark-backup/tidemark/internal/buildinfo"
	"github.com/tidemark-backup/tidemark/internal/manual"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/service"
)

// Service is the state of the service in its service manager, and its file.
func Service(s *service.State) Record {
	return one("service", s, func(w *show.Page) {
		state := "not installed"
		if s.Installed {
			state = "installed"
		}
		for _, word := range []string{s.Enabled, s.Active} {
			if s.Installed && word != "" {
				state += ", " + word
			}
		}
		if s.Installed && s.Sub != "" {
			state += " (" + s.Sub + ")"
		}
		if s.Since != "" {
			state += " since " + s.Since
		}
		fmt.Fprintf(w, "service: %s\n%s: %s\n", human.Printable(state), s.Manager, human.Printable(s.Path))
	})
}

// Manual is the result of an installation of man pages: where they are and how to read them.
func Manual(m *manual.Installed) Record {
	shown := *m
	shown.Dir, _ = event.Escape(m.Dir)
	return one("manual", &shown, func(w *show.Page) {
		fmt.Fprintf(w, "%d man pages installed in %s\n", m.Pages, human.Printable(m.Dir))
		if !m.InPath {
			fmt.Fprintf(w, "man does not search that folder; read them with: man -M '%s' tidemark-backup\n",
				human.Printable(filepath.Dir(m.Dir)))
		} else {
			fmt.Fprintln(w, "read them with: man tidemark-backup")
		}
	})
}

// Version is what is known of the build, in one line.
func Version(v buildinfo.Info) Record {
	return one("version", v, func(w *show.Page) {
		source := ""
		if v.Commit != "" {
			source = v.Commit[:min(len(v.Commit), 12)]
			if v.Modified {
				source += "+modified"
			}
			source = "commit " + source + ", "
		}
		if !v.Date.IsZero() {
			source += v.Date.Format(time.DateOnly) + ", "
		}
		fmt.Fprintf(w, "tidemark %s (%srepository format %d, %s, %s/%s)\n", v.Version, source, v.Format, v.Go, v.OS, v.Arch)
	})
}
