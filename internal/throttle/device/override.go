package device

import (
	"fmt"
	"strings"
)

// ParseMedium returns the medium of a word of --medium, in any case. Any other word is Unknown, which means: look.
func ParseMedium(word string) Medium {
	for _, m := range []Medium{SSD, HDD, Remote, Memory} {
		if strings.EqualFold(word, m.String()) {
			return m
		}
	}
	return Unknown
}

// Override returns info with the medium that the user says it has, after which nothing is weak. Unknown leaves it as it
// was found. Said to be memory it has no Key, like all memory; memory that is said to be something else gets one.
func Override(info Info, m Medium) Info {
	if m == Unknown {
		return info
	}
	info.Medium, info.Weak = m, false
	info.Why = fmt.Sprintf("The user says that it is %s. %s", m, info.Why)
	info.Key = info.domain
	if m == Memory {
		info.Key = ""
	}
	return info
}

// Medium returns the slowest medium of paths, unless the user says what it is. Paths that cannot be examined count as
// unknown.
func (f *Finder) Medium(said Medium, paths ...string) Medium {
	media := make([]Medium, len(paths))
	for i, path := range paths {
		if info, err := f.Of(path); err == nil {
			media[i] = Override(info, said).Medium
		}
	}
	return Slowest(media...)
}
