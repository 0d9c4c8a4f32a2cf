package manual

import (
	"fmt"
	"strings"
)

func markdown(p *page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- Generated from the program by `tidemark man markdown`: do not edit. -->\n# %s\n%s\n\n", p.name, p.short)
	fmt.Fprintf(&b, "```\n%s\n```\n\n%s\n", p.usage, verbatim(p.long))
	if p.example != "" {
		fmt.Fprintf(&b, "\n## Examples\n```\n%s\n```\n", p.example)
	}
	for _, part := range []struct {
		title string
		flags []flag
	}{{"Flags", p.flags}, {"Flags of all commands", p.inherited}} {
		if len(part.flags) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n| flag | meaning |\n|---|---|\n", part.title)
		for _, f := range part.flags {
			fmt.Fprintf(&b, "| `%s` | %s |\n", f.names, strings.ReplaceAll(f.help, "|", `\|`))
		}
	}
	if len(p.children) > 0 {
		b.WriteString("\n## Commands\n")
		for _, c := range p.children {
			fmt.Fprintf(&b, "- [%s](%s.md): %s\n", c.name, fileName(c.name), c.short)
		}
	}
	if p.parent != "" {
		fmt.Fprintf(&b, "\nSee also [%s](%s.md).\n", p.parent, fileName(p.parent))
	}
	return b.String()
}

// verbatim keeps indented lines as they are laid out, and takes the rest as text.
func verbatim(text string) string {
	var b strings.Builder
	inside := false
	for line := range strings.SplitSeq(text, "\n") {
		indented := strings.HasPrefix(line, "  ")
		if indented != inside {
			b.WriteString("```\n")
			inside = indented
		}
		if !indented {
			line = strings.NewReplacer("<", `\<`, "*", `\*`).Replace(line)
		}
		b.WriteString(line + "\n")
	}
	if inside {
		b.WriteString("```\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
