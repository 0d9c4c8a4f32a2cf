// Package control inspects and changes a running job from outside: through a socket in a directory that only its owner
// can enter, and through a signal. A job serves its socket while it runs. Another process lists the directory to find
// jobs, and sends each a request.
//
// The protocol is lines of JSON, one request and one answer at a time, at most 4 KiB and 1 MiB long:
//
//	{"version":1,"request":"status"}                          -> {"message_type":"job","version":1,"pid":...}
//	{"version":1,"request":"set-policy","policy":"utility"}   -> {"message_type":"policy_change","version":1,...}
//	  with "for_seconds":1800 too, for that time
//	{"version":1,"request":"return-policy"}                   -> {"message_type":"policy_change","version":1,...}
//	{"version":1,"request":"set-max-impact","max_impact":20}  -> {"message_type":"policy_change","version":1,...}
//	anything else                                             -> {"message_type":"refused","version":1,"message":"..."}
//
// The job has priority: a client that is slow, sends too much or sends invalid requests is disconnected, and an error
// at the socket is never an error of the job. A Job holds the policy and the time for which it was set; its Means show
// and apply it. The caller supplies the directory.
package control
