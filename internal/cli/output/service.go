package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/service"
)

// Service is the state of the service in its service manager.
type Service struct {
	service.State
	Changed bool `json:"changed,omitempty"` // of `install` and `uninstall`: true if the file changed
}

// Events returns the state.
func (s *Service) Events() []any { return []any{event.Of("service", s)} }

// Text writes the state and the file.
func (s *Service) Text(w io.Writer) error {
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
	_, err := fmt.Fprintf(w, "service: %s\n%s: %s\n", human.Printable(state), s.Manager, human.Printable(s.Path))
	return err
}
