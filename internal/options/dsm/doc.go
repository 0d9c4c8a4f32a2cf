// Package dsm reads option files in the format of IBM's client (dsm.sys, dsm.opt): grammar and keywords. Values stay
// text.
package dsm
