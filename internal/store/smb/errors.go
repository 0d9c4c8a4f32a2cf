package smb

import "errors"

var (
	// ErrTarget: not an SMB address. It never holds the address itself, in which a password may stand.
	ErrTarget = errors.New("not an address of an SMB share")
	// ErrLogon: the server does not accept the user or the password.
	ErrLogon = errors.New("the server refused the logon")
	// ErrInsecure: the server does not offer what was required of it: encryption or signatures.
	ErrInsecure = errors.New("the connection is not as secure as required")
	// ErrTorn: a file on the server is not what was sent, again and again.
	ErrTorn = errors.New("the server does not keep what it is sent")

	// errDropped: the session ended while a request was under way, and it is not known whether that was done.
	errDropped = errors.New("the connection to the server was lost")
	// errStalled: see Patience.Request.
	errStalled = errors.New("the server does not answer")
	// errClosed: Store.Close was called.
	errClosed = errors.New("the store is closed")
	// errStop: whoever listed has seen enough.
	errStop = errors.New("enough")
	// errNonsense: the server's answer makes no sense.
	errNonsense = errors.New("the server's answer makes no sense")
)
