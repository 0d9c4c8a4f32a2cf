// Package control is how a running job is shown and changed from outside: a socket in a directory that only its owner
// can enter, and a signal. A job serves its socket for as long as it runs; another process finds all jobs by looking
// into the directory, and asks each for its state or for another policy.
//
// The protocol is lines of JSON, one request and one answer at a time, at most 4 KiB and 1 MiB long:
//
//	{"version":1,"request":"status"}                         -> {"message_type":"job","version":1,"pid":...}
//	{"version":1,"request":"set-policy","policy":"utility"}  -> {"message_type":"policy_change","version":1,...}
//	anything else                                            -> {"message_type":"refused","version":1,"message":"..."}
//
// A job comes first: whoever speaks slowly, too much or nonsense is cut off, and nothing that happens at the socket is
// an error of the job.
//
// The package refuses to know what a job does and how it obeys: that is behind the interface Job. It does not look for
// the directory either.
package control
