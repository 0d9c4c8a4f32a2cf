package help

import (
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/options"
)

// Topic lists flags under a topic. Flags without one are listed under options.TopicWhat.
func Topic(flags *pflag.FlagSet, t options.Topic, names ...string) {
	for _, name := range names {
		annotate(flags, name, options.TopicAnnotation, string(t))
	}
}

// Rare leaves flags out of the short help.
func Rare(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		annotate(flags, name, options.RareAnnotation, "yes")
	}
}

func annotate(flags *pflag.FlagSet, name, key, value string) {
	if err := flags.SetAnnotation(name, key, []string{value}); err != nil {
		panic(err) // an unknown flag: a bug
	}
}

func topic(f *pflag.Flag) options.Topic {
	if t := f.Annotations[options.TopicAnnotation]; len(t) > 0 {
		return options.Topic(t[0])
	}
	return options.TopicWhat
}

func rare(f *pflag.Flag) bool { return len(f.Annotations[options.RareAnnotation]) > 0 }
