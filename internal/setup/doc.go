// Package setup decides the contents of a first configuration: which folders are proposed, which mounted disks and
// shares can hold the repository, what they protect against, and which lines of the option file change. A Dialog asks a
// person for it.
//
// The decisions see the machine through System, so that tests have one of their own. The package makes no repository
// and no backup: the command does, with what was decided here.
package setup
