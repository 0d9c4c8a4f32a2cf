package address

import (
	"regexp"
	"strings"
)

// Is reports whether a text was meant as an address of a share and not as the name of a file or a folder, whether or not
// Parse takes it: it begins with smb: or cifs:, in any case of letters.
func Is(text string) bool {
	lower := strings.ToLower(text)
	return strings.HasPrefix(lower, "smb:") || strings.HasPrefix(lower, "cifs:")
}

// hidden stands for a user with a password.
const hidden = "***"

// patterns are what may be a password in a text, the widest first. Each one ends with the last @ that may belong to it:
// a password may hold slashes, colons and that sign.
func patterns() []string {
	return []string{
		`("[^"\s]*:/+)[^"\s/@:]*[:@][^"\n]*@`,        // in quotes, where a password may hold blanks
		`([A-Za-z][A-Za-z0-9+.-]*:/+)[^\s/@:]*:\S*@`, // scheme://user:password@host
		`([A-Za-z][A-Za-z0-9+.-]*:/+)[^\s@]*@\S*@`,   // scheme://user@password@host
		`()[^\s/@:"'(]+:[^\s/:@]\S*@`,                // user:password@host
	}
}

// Mask returns text, which may be any message, with *** in the place of what may be a user and a password in front of a
// host. It would rather hide too much than too little: of the name of a file such as a:b@c it leaves ***@c.
func Mask(text string) string {
	if !strings.Contains(text, "@") || !strings.Contains(text, ":") {
		return text
	}
	for _, pattern := range patterns() {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, "${1}"+hidden+"@")
	}
	return text
}
