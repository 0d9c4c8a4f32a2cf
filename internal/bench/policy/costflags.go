package policy

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
)

// flags declares the flags of all parts, and returns a check that runs after parsing.
func (s *costSettings) flags(flags *flag.FlagSet) (check func() error) {
	var keys []string
	for _, f := range append(rig.Foregrounds(false), rig.Works()...) {
		keys = append(keys, f.Key)
	}
	flags.DurationVar(&s.bound, "bound", time.Minute, "how long a backup may take beside a foreground")
	foregrounds := flags.String("foregrounds", "", "which foregrounds, with commas between (default: all): "+
		strings.Join(keys, ", ")+"; none: backups on an idle disk only")
	words := flags.String("steps", strings.Join(steps(), ","), "which backups")
	beside := flags.String("beside", "throttle,utility,throttle --max-impact 0,off",
		"the candidates, with commas between: a policy and more flags of tidemark, or restic or borg under nice and ionice")
	arrivals := flags.String("arrivals", "fixed",
		"intervals between requests of a foreground with a rate: fixed or poisson")
	mib := flags.Int64("code", 600, "MiB of the source")
	flags.IntVar(&s.codeFiles, "code-files", 80000, "files of the source")
	flags.DurationVar(&s.mix, "mixed", 12*time.Second,
		"how long each foreground of mixed runs; pauses take a third")
	return func() error {
		s.foregrounds, s.steps = kit.Words(*foregrounds), kit.Words(*words)
		for _, one := range strings.Split(*beside, ",") {
			if one = strings.TrimSpace(one); one != "" {
				s.beside = append(s.beside, one)
			}
		}
		s.code, s.poisson = *mib<<20, *arrivals == "poisson"
		switch {
		case s.bound < time.Second || *mib < 1 || s.codeFiles < 10:
			return errors.New("a bound of 1s, 1 MiB and 10 files")
		case *arrivals != "fixed" && *arrivals != "poisson":
			return fmt.Errorf("-arrivals %q: say fixed or poisson", *arrivals)
		}
		return errors.Join(kit.Known("-foregrounds", s.foregrounds, append(keys, "none")),
			kit.Known("-steps", s.steps, steps()))
	}
}
