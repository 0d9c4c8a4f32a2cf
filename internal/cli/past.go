package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/when"
)

// past is the value of --as-of. What was stored or removed from then on does not count.
type past struct {
	before *time.Time
	text   string
}

// Set reads a moment, or a day, which stands for its end.
func (p *past) Set(text string) error {
	span, err := when.Parse(text, time.Now())
	*p.before, p.text = span.To, text
	return err //nolint:wrapcheck // it names the forms
}

func (p *past) String() string { return p.text }

// Type implements pflag.Value.
func (p *past) Type() string { return "time" }

// pastFlag registers --as-of, with which a command reads the repository as it was.
func (a *app) pastFlag(c *cobra.Command) {
	c.Flags().Var(&past{before: &a.before}, "as-of", "read the repository as it was at this time, in a bucket that keeps "+
		"versions, whatever was removed or overwritten since: a day (its end), a moment, or \"3 days ago\"")
	help.Topic(c.Flags(), options.TopicWhere, "as-of")
	help.Rare(c.Flags(), "as-of")
}
