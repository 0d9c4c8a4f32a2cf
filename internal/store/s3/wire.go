package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Requests counts the requests of a Store by what servers charge for.
type Requests struct{ Put, Get, Head, List, Delete, Other atomic.Uint64 }

// Charged returns the requests so far in the classes of price lists: PUT, LIST and all others; GET and HEAD; DELETE.
func (r *Requests) Charged() (put, get, remove uint64) {
	return r.Put.Load() + r.List.Load() + r.Other.Load(), r.Get.Load() + r.Head.Load(), r.Delete.Load()
}

// of returns the counter of a request, and its kind for the gate.
func (r *Requests) of(req *http.Request) (*atomic.Uint64, iopolicy.Kind) {
	switch {
	case req.Method == http.MethodPut:
		return &r.Put, iopolicy.Write
	case req.Method == http.MethodGet && req.URL.Query().Get("list-type") != "":
		return &r.List, iopolicy.Metadata
	case req.Method == http.MethodGet && (len(req.URL.RawQuery) == 0 || req.URL.Query().Has("versionId")):
		return &r.Get, iopolicy.Read
	case req.Method == http.MethodHead:
		return &r.Head, iopolicy.Metadata
	case req.Method == http.MethodDelete:
		return &r.Delete, iopolicy.Metadata
	default:
		return &r.Other, iopolicy.Metadata
	}
}

// wire counts requests and passes them through the gate.
type wire struct {
	base     *http.Transport
	pass     *iopolicy.Pass
	requests *Requests
}

// dateKey is the key of a *time.Time in a context, which gets the server's time of an answer.
type dateKey struct{}

const (
	// dialTimeout is how long a server has to accept a connection.
	dialTimeout = 15 * time.Second
	// idleTimeout is less than that of usual servers, so that connections are not reused when the server closes them.
	idleTimeout = 15 * time.Second
	// buffer is how many bytes are passed to the system at once.
	buffer = 256 << 10
)

// newWire returns the connections to a server; roots are additional authorities in PEM, nil for none.
func newWire(o Options) (*wire, error) {
	base := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: dialTimeout, KeepAlive: idleTimeout}).DialContext,
		// One request at a time on each connection (HTTP/1.1): a large object does not delay the others.
		MaxIdleConnsPerHost: o.Connections, MaxIdleConns: o.Connections,
		IdleConnTimeout: idleTimeout, TLSHandshakeTimeout: dialTimeout, DisableCompression: true,
		WriteBufferSize: buffer, ReadBufferSize: buffer,
	}
	if len(o.CA) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(o.CA) {
			return nil, errors.New("the file of --s3-ca holds no certificate in PEM form")
		}
		base.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &wire{base: base, pass: o.Pass, requests: o.Requests}, nil
}

// RoundTrip does one request as an operation of the gate, which ends when the answer is closed.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	counter, kind := w.requests.of(req)
	sent := int(max(req.ContentLength, 0))
	grant, err := w.pass.Begin(req.Context(), iopolicy.Op{Kind: kind, Bytes: sent, Certain: true})
	if err != nil {
		return nil, err
	}
	counter.Add(1)
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		grant.End(0)
		return nil, err
	}
	if date, ok := req.Context().Value(dateKey{}).(*time.Time); ok {
		*date, _ = http.ParseTime(resp.Header.Get("Date"))
	}
	resp.Body = &answer{ReadCloser: resp.Body, grant: grant, moved: sent}
	return resp, nil
}

// answer is the body of an answer, whose Close ends the operation.
type answer struct {
	io.ReadCloser
	grant iopolicy.Grant
	moved int
	ended bool
}

// Read reads from the body.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.moved += n
	return n, err
}

// Close closes the body and ends the operation.
func (a *answer) Close() error {
	if !a.ended {
		a.ended = true
		a.grant.End(a.moved)
	}
	return a.ReadCloser.Close()
}

// errStalled ends a request on which nothing moves.
var errStalled = errors.New("the server has not answered for two minutes")

// patience is how long a request may stand still.
const patience = 2 * time.Minute

// watched returns a context that ends with errStalled unless alive is called often enough.
func watched(ctx context.Context) (_ context.Context, alive, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience, func() { cancel(errStalled) })
	return ctx, func() { timer.Reset(patience) }, func() {
		timer.Stop()
		cancel(nil)
	}
}

// paced moves bytes in pieces at the pace of the context.
type paced struct {
	from  io.Reader
	ctx   context.Context
	way   store.Direction
	alive func()
}

// Read reads a piece.
func (r *paced) Read(p []byte) (int, error) {
	n, err := r.from.Read(p[:store.PieceOf(r.ctx, r.way, len(p))])
	if slow := store.Paced(r.ctx, r.way, n); slow != nil {
		return n, slow
	}
	r.alive()
	return n, err
}
