package options

import (
	"fmt"
	"strings"
)

// Reference returns docs/cli/options.md: the table of all options, and that of RESOURCEUTILIZATION.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	group := Group("")
	for _, o := range Table() {
		if o.Hidden {
			continue
		}
		if o.Group != group {
			group = o.Group
			fmt.Fprintf(&b, "| **%s** |\n", group)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", documentedName(o), o.Default, documentedMeaning(o))
	}
	b.WriteString(referenceDial)
	for value, r := range dialRows() {
		if value == 0 {
			fmt.Fprintf(&b, "| unset | %d | %d | %d | by the machine |\n", r.ibmSessions, r.producers, r.consumers)
			continue
		}
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %d |\n", value, r.ibmSessions, r.producers, r.consumers, max(r.consumers, 1))
	}
	return b.String()
}

// documentedName returns the flag of an option, or its variable, and its keyword if that is not derived from the name.
func documentedName(o Option) string {
	name := o.Env()
	if o.Barred&NotFlag == 0 {
		name = "--" + o.Name
		if o.Short != "" {
			name += "` `-" + o.Short
		}
	}
	if name == "" {
		name = o.Name
	}
	name = "`" + name + "`"
	if o.Barred&NotFile == 0 {
		for _, word := range o.Keywords() {
			if word != strings.ToUpper(strings.ReplaceAll(o.Name, "-", "")) {
				name += " `" + word + "`"
			}
		}
	}
	usual := "TIDEMARK_" + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
	if o.Env() != usual && o.Env() != "" {
		name += " `" + o.Env() + "`"
	}
	return name
}

// documentedMeaning returns the help of an option, IBM's default and the bounds.
func documentedMeaning(o Option) string {
	help := o.Help
	if o.IBMDefault != "" && o.IBMDefault != o.Default {
		help += "; TSM: " + o.IBMDefault
	}
	if o.Kind == List {
		help += "; repeatable"
	}
	return help + strings.ReplaceAll(o.bounds(), ", or auto", "")
}

const referenceHead = `# Options

[options.md](../options.md) explains the option file, values, and the order in which sources override each other. The
keyword in the file is the flag in capitals without dashes, unless another is shown. The environment variable is
TIDEMARK_ and the name in capitals, with _ for each dash, unless shown.

| option | default | meaning |
|---|---|---|
`

const referenceDial = `
## RESOURCEUTILIZATION

IBM's producers compare files, its consumers move data. There are never more compressors than processors.

| value | sessions | producers, scanners | consumers | readers, compressors, uploads |
|---|---|---|---|---|
`
