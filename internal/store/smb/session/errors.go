package session

import "errors"

var (
	// ErrLogon: the server does not accept the user or the password.
	ErrLogon = errors.New("the server refused the logon")
	// ErrInsecure: the server does not offer the required encryption or signatures.
	ErrInsecure = errors.New("the connection is not as secure as required")
	// ErrDropped: the session ended during a request; the server may have executed it.
	ErrDropped = errors.New("the connection to the server was lost")
	// ErrClosed: Pool.Close or Pool.Abort was called.
	ErrClosed = errors.New("the store is closed")

	// errHungUp: the server closed the connection.
	errHungUp = errors.New("the server closed it")
	// errStalled: no byte moved for Login.Patience.
	errStalled = errors.New("the server does not answer")
	// errForeign: the server uses another protocol.
	errForeign = errors.New("not an SMB server")
	// errAltered: a message was changed on the way.
	errAltered = errors.New("messages are changed on the way, by a cable, a switch, a network card or an attacker")
	// errLowered: the answer to the negotiation names an older protocol than the server has.
	errLowered = errors.New("the negotiation was changed on the way")
	// errNonsense: the server's answer is invalid.
	errNonsense = errors.New("the server's answer makes no sense")
)
