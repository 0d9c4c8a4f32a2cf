package store

import (
	"regexp"
	"strings"
)

// hidden stands for a user with a password.
const hidden = "***"

// patterns match possible passwords in a text, the widest first. Each ends with the last @ that may belong to it: a
// password may contain slashes, colons and that sign.
func patterns() []string {
	return []string{
		`("[^"\s]*:/+)[^"\s/@:]*[:@][^"\n]*@`,        // in quotes, where a password may hold blanks
		`([A-Za-z][A-Za-z0-9+.-]*:/+)[^\s/@:]*:\S*@`, // scheme://user:password@host
		`([A-Za-z][A-Za-z0-9+.-]*:/+)[^\s@]*@\S*@`,   // scheme://user@password@host
		`()[^\s/@:"'(]+:[^\s/:@]\S*@`,                // user:password@host
	}
}

// Mask returns text with *** in place of a possible user and password in front of a host. It hides too much rather than
// too little: a file name such as a:b@c becomes ***@c.
func Mask(text string) string {
	if !strings.Contains(text, "@") || !strings.Contains(text, ":") {
		return text
	}
	for _, pattern := range patterns() {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, "${1}"+hidden+"@")
	}
	return text
}
