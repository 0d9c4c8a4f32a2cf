package options

import (
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options/dsm"
)

// WithoutSecrets returns environ, as of os.Environ, without the variables that contain a password. Every program that
// tidemark starts gets this environment, except those of `tidemark run`, since they may be tidemark itself.
func WithoutSecrets(environ []string) []string {
	var secret []string
	for _, o := range Table() {
		if o.Secret {
			secret = append(secret, o.Env())
		}
	}
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(secret, name)
	})
}

// OfVariable returns the name of the option that an environment variable sets; "" for none.
func OfVariable(name string) string {
	for _, o := range Table() {
		if o.Env() == name {
			return o.Name
		}
	}
	return ""
}

// Keyword looks a word of an option file up, whole or shortened: the whole keyword in capitals, and the option it sets.
// For an option of IBM's client without effect here, option is empty, and hint may name the replacement. keyword is
// empty for other words.
func Keyword(word string) (keyword, option, hint string) {
	table := Table()
	own := keywordsOf(table)
	keyword, ok := vocabulary(table).Find(word)
	if !ok {
		return "", "", ""
	}
	switch o := own[keyword]; {
	case o != nil:
		return keyword, o.Name, ""
	case keyword == "SERVERNAME": // not lines of a file, but flags
		return keyword, "server-name", ""
	case keyword == "OPTFILE":
		return keyword, "option-file", ""
	}
	return keyword, "", dsm.Hint(keyword)
}
