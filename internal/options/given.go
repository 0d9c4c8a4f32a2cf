package options

import (
	"path/filepath"
	"strings"
)

// Given returns what the command line sets, and the keys and logons of the environment, as lines of an option file.
// Paths are absolute. Output options and those that no file may set are left out.
func (s *Spec) Given() []FileLine {
	var all []FileLine
	for i := range s.table {
		o := &s.table[i]
		words := o.Keywords()
		if len(words) == 0 || o.Group == GroupOutput {
			continue
		}
		lowest := fromFlag
		if o.Group == GroupKeys || o.Group == GroupShare {
			lowest = fromEnv
		}
		line := FileLine{Keyword: strings.ToUpper(words[0]), List: o.Kind == List}
		for _, one := range s.settings[o.Name] {
			if one.level < lowest {
				continue
			}
			text := o.format(one.value)
			if o.Kind == Path && !o.location() {
				if path, err := filepath.Abs(text); err == nil {
					text = path
				}
			}
			line.Values = append(line.Values, text)
			if o.Kind != Domain {
				all = append(all, line)
				line.Values = nil
			}
		}
		if len(line.Values) > 0 {
			all = append(all, line)
		}
	}
	return all
}

// FileLine is a line of an option file that is in effect, or that is to be.
type FileLine struct {
	Number  int      // of the line, from 1; 0: it is not there yet
	Keyword string   // in upper case, the first of its synonyms
	Values  []string // without quotes
	List    bool     // several new lines with the keyword add up
}

// ParseFile returns the lines of an option file that are in effect, in their order. server names the stanza; "": as for
// every command.
func ParseFile(path string, content []byte, server string) ([]FileLine, error) {
	parsed, err := parseFile(path, content, Table())
	if err != nil {
		return nil, err
	}
	lines, err := parsed.lines(server, "--server-name")
	if err != nil {
		return nil, err
	}
	var all []FileLine
	for _, l := range lines {
		values, err := l.values()
		if err != nil {
			return nil, err
		}
		all = append(all, FileLine{Number: l.Number, Keyword: l.usual(), Values: values})
	}
	return all, nil
}

// Stanzas returns the stanzas of an option file in their order, also with an error.
func Stanzas(path string, content []byte) ([]Stanza, error) {
	parsed, err := parseFile(path, content, Table())
	return parsed.stanzas, err
}

// ServerOf returns the stanza of a dsm.sys to which a dsm.opt belongs: the one it names, otherwise that of
// DEFAULTSERVER, or the first; "" if there is none.
func ServerOf(path string, content []byte, system string, systemContent []byte) (string, error) {
	table := Table()
	f, err := parseFile(path, content, table)
	if err != nil {
		return "", err
	}
	s, err := parseFile(system, systemContent, table)
	if err != nil {
		return "", err
	}
	return s.stanza(f.stanza("")), nil
}

// OnlyStanza returns the content with the lines of all stanzas but one made empty, so that each line keeps its number;
// name "": without any stanza.
func OnlyStanza(path string, content []byte, name string) []byte {
	stanzas, _ := Stanzas(path, content) // mistakes do not matter
	lines := strings.Split(string(content), "\n")
	for i, s := range stanzas {
		if name != "" && strings.EqualFold(s.Name, name) {
			continue
		}
		end := len(lines)
		if i+1 < len(stanzas) {
			end = stanzas[i+1].First - 1
		}
		for k := s.First - 1; k < end; k++ {
			lines[k] = ""
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// LineKeyword returns the keyword of the lines of an option file, as in FileLine, for a keyword or the name of an
// option; "" for other words.
func LineKeyword(word string) string {
	for _, o := range Table() {
		if words := o.Keywords(); o.Name == strings.ToLower(strings.TrimPrefix(word, "--")) && len(words) > 0 {
			return strings.ToUpper(words[0])
		}
	}
	lines, err := ParseFile("", []byte(word+" x"), "")
	if err != nil || len(lines) != 1 {
		return ""
	}
	return lines[0].Keyword
}

// UserFile returns the path of the user's option file; without a home directory, of the machine's.
func UserFile(env Env) string { return fileLocations(env)[0] }
