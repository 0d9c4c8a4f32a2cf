package elsewhere

import (
	"fmt"
	"slices"
	"strings"
)

// Row is a command, flag or environment variable of another program and its equivalent here.
type Row struct {
	Program string
	Theirs  string // "snapshot create", "--pack-size", "BORG_REPO"
	// "backup", "check --read-data", "--time", "TIDEMARK_REPOSITORY"; several are alternatives; none: no equivalent
	Ours []string
	Note string // what differs, or why there is no equivalent
}

// Programs lists the other programs.
func Programs() []string { return []string{"restic", "borg", "kopia", "tmutil", "dsmc"} }

// Commands lists the commands of the other programs, including those with the same name here.
func Commands() []Row {
	return rows(map[string]string{"restic": resticCommands, "borg": borgCommands, "kopia": kopiaCommands,
		"tmutil": tmutilCommands, "dsmc": dsmcCommands})
}

// Flags lists flags of the other programs that have another name here, or none.
func Flags() []Row {
	return rows(map[string]string{"restic": resticFlags, "borg": borgFlags, "kopia": kopiaFlags, "tmutil": tmutilFlags})
}

// Variables lists environment variables of the other programs.
func Variables() []Row {
	return rows(map[string]string{"restic": resticVariables, "borg": borgVariables, "kopia": kopiaVariables,
		"dsmc": dsmcVariables})
}

// rows parses tables with lines "theirs | ours; alternative | note".
func rows(tables map[string]string) (all []Row) {
	for _, program := range Programs() {
		for line := range strings.Lines(tables[program]) {
			cells := strings.Split(strings.TrimSpace(line), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if cells[0] == "" {
				continue
			}
			r := Row{Program: program, Theirs: cells[0]}
			if len(cells) > 1 && cells[1] != "" {
				r.Ours = strings.Split(cells[1], "; ")
			}
			if len(cells) > 2 {
				r.Note = cells[2]
			}
			all = append(all, r)
		}
	}
	return all
}

// Command explains the longest beginning of words, with at least the number of words that is given, that is a command
// of another program; "" if there is none. The other words may be arguments.
func Command(words []string, least int) string {
	all := Commands()
	for n := min(len(words), longest(all)); n >= least; n-- {
		if text := explain(all, strings.ToLower(strings.Join(words[:n], " "))); text != "" {
			return text
		}
	}
	return ""
}

// longest returns the number of words in the longest command.
func longest(all []Row) (n int) {
	for _, r := range all {
		n = max(n, 1+strings.Count(r.Theirs, " "))
	}
	return n
}

// Flag explains a flag, such as "--pack-size", of another program; "" if there is none.
func Flag(name string) string { return explain(Flags(), name) }

// explain returns a sentence about the rows for a word: `"create" (borg): use 'tidemark backup'`.
func explain(all []Row, theirs string) string {
	var programs, answers []string
	for _, r := range all {
		if r.Theirs != theirs {
			continue
		}
		if i := slices.Index(answers, r.answer()); i >= 0 {
			programs[i] += ", " + r.Program
			continue
		}
		programs, answers = append(programs, r.Program), append(answers, r.answer())
	}
	for i := range answers {
		answers[i] = "(" + programs[i] + "): " + answers[i]
	}
	if len(answers) == 0 {
		return ""
	}
	return fmt.Sprintf("%q %s", theirs, strings.Join(answers, "; "))
}

// answer returns what to use, or why there is no equivalent.
func (r *Row) answer() string {
	var quoted []string
	for _, ours := range r.Ours {
		if !strings.HasPrefix(ours, "-") {
			ours = "'tidemark " + ours + "'"
		}
		quoted = append(quoted, ours)
	}
	switch n := len(quoted); {
	case n == 0:
		return r.Note
	case n > 1:
		quoted = []string{strings.Join(quoted[:n-1], ", "), quoted[n-1]}
	}
	text := "use " + strings.Join(quoted, " or ")
	if r.Note != "" {
		text += ": " + r.Note
	}
	return text
}
