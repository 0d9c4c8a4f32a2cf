package notify

import "errors"

var (
	errScheme   = errors.New("it redirects to another scheme, which is not followed")
	errMethod   = errors.New("it redirects in a way that loses the message; name the new address")
	errLoop     = errors.New("too many redirects")
	errNotHTTP  = errors.New("not an http or https URL")
	errSendmail = errors.New("the program sendmail was not found; name a mail-server")
	errDesktop  = errors.New("this user has no desktop session here")
)
