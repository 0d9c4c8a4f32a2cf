// Package dsm reads option files of the kind IBM's TSM client has (dsm.sys, dsm.opt): one "KEYWORD value" per line, no
// continuation, keywords in any case and shortened as IBM allows, comments after '*' or '#', quotes around values with
// blanks, stanzas that SERVERNAME opens. A colon may end the keyword, as in what sysctl prints.
//
// It knows the grammar, and which words IBM's client has. It refuses to know what an option means: values stay text.
package dsm
