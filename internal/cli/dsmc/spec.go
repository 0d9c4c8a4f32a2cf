package dsmc

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Spec is a file specification: the objects of a directory whose name matches a pattern.
type Spec struct {
	Dir  string // absolute
	Name string // a pattern with * and ?; "*" for all
	Wild bool   // Name is a pattern, or the specification ended with a slash
}

// ParseSpec reads a file specification relative to a working directory. Braces around the file space are dropped.
func ParseSpec(text, wd string) (Spec, error) {
	plain := text
	if space, rest, ok := strings.Cut(strings.TrimPrefix(plain, "{"), "}"); ok && strings.HasPrefix(plain, "{") {
		plain = strings.TrimSuffix(space, "/") + "/" + strings.TrimPrefix(rest, "/")
		if rest == "" {
			plain = space + "/"
		}
	}
	if plain == "" {
		return Spec{}, fmt.Errorf("%w: a file specification is empty", ErrUsage)
	}
	if !strings.HasPrefix(plain, "/") {
		plain = strings.TrimSuffix(wd, "/") + "/" + plain
	}
	dir, name := path.Split(plain)
	s := Spec{Dir: path.Clean(dir), Name: name, Wild: strings.ContainsAny(name, "*?")}
	if strings.ContainsAny(s.Dir, "*?") {
		return s, fmt.Errorf("%w: %q: only the last name can have wildcards", ErrUsage, text)
	}
	if name == "" || name == "." || name == ".." {
		s = Spec{Dir: path.Clean(plain), Name: "*", Wild: true}
	}
	return s, nil
}

// Path returns the object that the specification names, or its directory.
func (s *Spec) Path() string {
	if s.Wild {
		return s.Dir
	}
	return path.Join(s.Dir, s.Name)
}

// Matches reports whether a name fits the pattern.
func (s *Spec) Matches(name string) bool {
	if !s.Wild {
		return name == s.Name
	}
	ok, err := path.Match(strings.NewReplacer(`\`, `\\`, "[", `\[`).Replace(s.Name), name)
	return err == nil && ok
}

// Sources returns the paths that a backup of the specification saves. deep means that subdirectories are backed up too.
func (s *Spec) Sources(deep bool) ([]string, error) {
	switch {
	case !s.Wild, s.Name == "*":
		return []string{s.Path()}, nil
	case deep:
		return nil, fmt.Errorf("%w: a pattern other than * with -subdir=yes is not supported: name the folder, and "+
			"leave files out by EXCLUDE in the option file", ErrUsage)
	}
	found, err := filepath.Glob(path.Join(globQuote(s.Dir), strings.NewReplacer(`\`, `\\`, "[", `\[`).Replace(s.Name)))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUsage, s.Name, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: no file matches %s", ErrUsage, path.Join(s.Dir, s.Name))
	}
	return found, nil
}

// globQuote quotes what has a meaning for filepath.Glob.
func globQuote(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(text)
}

// DateLayout returns the layout of the -dateformat with a number; the first is IBM's default.
func DateLayout(number string) (string, error) {
	layouts := map[string]string{"": "01/02/2006", "1": "01/02/2006", "2": "02-01-2006", "3": "2006-01-02",
		"4": "02.01.2006",
		"5": "2006.01.02", "6": "2006/01/02", "7": "02/01/2006"}
	layout, ok := layouts[number]
	if !ok {
		return "", fmt.Errorf("%w: -dateformat: write a number from 1 to 7", ErrUsage)
	}
	return layout, nil
}

// ParseMoment reads -pitdate and -pittime; without a time it is the end of that day. A date as 2006-01-02 is always
// understood.
func ParseMoment(date, clock, layout string) (time.Time, error) {
	day, err := time.ParseInLocation(layout, date, time.Local)
	if err != nil {
		day, err = time.ParseInLocation(time.DateOnly, date, time.Local)
	}
	if err != nil {
		return day, fmt.Errorf("%w: -pitdate: write the date as %s", ErrUsage,
			strings.NewReplacer("2006", "YYYY", "01", "MM", "02", "DD").Replace(layout))
	}
	if clock == "" {
		return day.AddDate(0, 0, 1).Add(-time.Second), nil
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if at, err := time.Parse(layout, clock); err == nil {
			return day.Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute +
				time.Duration(at.Second())*time.Second), nil
		}
	}
	return day, fmt.Errorf("%w: -pittime: write the time as HH:MM:SS", ErrUsage)
}
