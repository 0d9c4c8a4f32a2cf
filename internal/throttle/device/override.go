package device

import (
	"fmt"
	"strings"
)

// ParseMedium returns the medium of a word of --medium, in any case. "auto" and "" are Unknown, which means: look.
func ParseMedium(word string) (Medium, error) {
	if word == "" || strings.EqualFold(word, "auto") {
		return Unknown, nil
	}
	for _, m := range []Medium{SSD, HDD, Remote, Memory} {
		if strings.EqualFold(word, m.String()) {
			return m, nil
		}
	}
	return Unknown, fmt.Errorf("%w: %q; take auto, ssd, hdd, remote or memory", ErrMedium, word)
}

// Override returns info with the medium that the user says it has, after which nothing is weak. "auto" and "" leave it
// as it was found. Said to be memory it has no Key, like all memory; memory that is said to be something else gets one.
func Override(info Info, word string) (Info, error) {
	m, err := ParseMedium(word)
	if err != nil || m == Unknown {
		return info, err
	}
	info.Medium, info.Weak = m, false
	info.Why = fmt.Sprintf("The user says that it is %s. %s", m, info.Why)
	info.Key = info.domain
	if m == Memory {
		info.Key = ""
	}
	return info, nil
}

// Medium returns the slowest medium of paths, unless word, the value of --medium, names one. Paths that cannot be
// examined count as unknown.
func (f *Finder) Medium(word string, paths ...string) Medium {
	media := make([]Medium, len(paths))
	for i, path := range paths {
		if info, err := f.Of(path); err == nil {
			if info, err = Override(info, word); err == nil {
				media[i] = info.Medium
			}
		}
	}
	return Slowest(media...)
}
