package cli

import "strings"

// tagList is the value of a repeatable flag that takes a tag, or a list of them with commas. Unlike pflag's slices it
// reads no quotes and ends at no newline: a tag is what was typed.
type tagList []string

// String returns the list as it is typed.
func (l *tagList) String() string { return strings.Join(*l, ",") }

// Type is the name of the type in help.
func (l *tagList) Type() string { return "strings" }

// Set appends the tags of text, none if it is empty.
func (l *tagList) Set(text string) error {
	if text != "" {
		*l = append(*l, strings.Split(text, ",")...)
	}
	return nil
}
