package s3test

import (
	"crypto/md5" //nolint:gosec // what S3 calls an ETag
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is what a Fake does with a request instead of executing it, or after it.
type Fault struct {
	Status int    // of the answer; 0: it is executed
	Code   string // of the error
	Region string // x-amz-bucket-region
	// Cut ends the connection without an answer: after the request was executed, or, with Status set, before.
	Cut bool
	// Half sends the first half of the answer's body and ends the connection.
	Half bool
	// Alter changes a byte of what was sent, before it is executed.
	Alter bool
}

// Fake is an S3 server in this process, without signatures.
type Fake struct {
	Addr  string
	Page  int           // how many objects a list has at most
	Delay time.Duration // before each answer
	// Backwards lists each page from its last key to its first.
	Backwards bool
	mu        sync.Mutex
	all       map[string]*object
	next      func(r *http.Request) Fault
	seen      [3]uint64 // see Served
	spans     [][2]time.Time
}

type object struct {
	data  []byte
	tag   string
	meta  string
	at    time.Time
	class string
}

// NewFake starts a Fake that executes everything.
func NewFake(t testing.TB) *Fake {
	f := &Fake{Page: 100, all: make(map[string]*object)}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.Addr = strings.TrimPrefix(server.URL, "http://")
	return f
}

// Faults makes next decide about each request from now on; nil: no faults.
func (f *Fake) Faults(next func(r *http.Request) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
}

// ServeHTTP answers a request.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	begin := time.Now()
	time.Sleep(f.Delay)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spans = append(f.spans, [2]time.Time{begin, time.Now()})
	switch {
	case r.Method == http.MethodDelete:
		f.seen[2]++
	case r.Method == http.MethodPut, r.URL.Query().Get("list-type") != "":
		f.seen[0]++
	default:
		f.seen[1]++
	}
	var fault Fault
	if f.next != nil {
		fault = f.next(r)
	}
	switch {
	case fault.Cut:
		if fault.Status == 0 {
			f.execute(httptest.NewRecorder(), r, body)
		}
		panic(http.ErrAbortHandler)
	case fault.Status != 0:
		if fault.Region != "" {
			w.Header().Set("X-Amz-Bucket-Region", fault.Region)
		}
		refuse(w, r, fault.Status, fault.Code)
	case fault.Half:
		whole := httptest.NewRecorder()
		f.execute(whole, r, body)
		maps.Copy(w.Header(), whole.Header())
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
		panic(http.ErrAbortHandler)
	default:
		if fault.Alter {
			body[len(body)/2] ^= 1
		}
		f.execute(w, r, body)
	}
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	w.WriteHeader(status)
	if r.Method != http.MethodHead && code != "" {
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>so says the test</Message></Error>", code)
	}
}

func (f *Fake) execute(w http.ResponseWriter, r *http.Request, body []byte) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	there := f.all[key]
	switch {
	case bucket != Bucket:
		refuse(w, r, http.StatusNotFound, "NoSuchBucket")
	case r.URL.Query().Get("list-type") != "":
		f.list(w, r.URL.Query())
	case r.Method == http.MethodPut:
		f.put(w, r, key, body)
	case r.Method == http.MethodDelete:
		delete(f.all, key)
		w.WriteHeader(http.StatusNoContent)
	case there == nil:
		refuse(w, r, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("ETag", there.tag)
		w.Header().Set("X-Amz-Meta-Tidemark-Put", there.meta)
		http.ServeContent(w, r, "", there.at, strings.NewReader(string(there.data)))
	}
}

func (f *Fake) put(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	sum, etag := sha256.Sum256(body), md5.Sum(body) //nolint:gosec // see above
	there := f.all[key]
	match := r.Header.Get("If-Match")
	switch {
	case r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]):
		refuse(w, r, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
	case there != nil && r.Header.Get("If-None-Match") == "*", there != nil && match != "" && match != there.tag:
		refuse(w, r, http.StatusPreconditionFailed, "PreconditionFailed")
	case there == nil && match != "":
		refuse(w, r, http.StatusNotFound, "NoSuchKey")
	default:
		o := &object{body, `"` + hex.EncodeToString(etag[:]) + `"`, r.Header.Get("X-Amz-Meta-Tidemark-Put"),
			time.Now().Truncate(time.Second), r.Header.Get("X-Amz-Storage-Class")}
		f.all[key] = o
		w.Header().Set("ETag", o.tag)
	}
}

func (f *Fake) list(w http.ResponseWriter, q url.Values) {
	type contents struct {
		Key, LastModified, ETag string
		Size                    int
	}
	var answer struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []contents
	}
	after := max(q.Get("continuation-token"), q.Get("start-after"))
	for _, key := range slices.Sorted(maps.Keys(f.all)) {
		if !strings.HasPrefix(key, q.Get("prefix")) || key <= after {
			continue
		}
		if len(answer.Contents) == f.Page {
			answer.IsTruncated, answer.NextContinuationToken = true, answer.Contents[f.Page-1].Key
			break
		}
		o := f.all[key]
		answer.Contents = append(answer.Contents, contents{key, o.at.UTC().Format(time.RFC3339Nano), o.tag, len(o.data)})
	}
	if f.Backwards {
		slices.Reverse(answer.Contents)
	}
	data, err := xml.Marshal(answer)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}

// Turns returns the largest number of requests that followed one another since it was called last: each came after the
// answer to the one before.
func (f *Fake) Turns() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortFunc(f.spans, func(a, b [2]time.Time) int { return a[1].Compare(b[1]) })
	var last time.Time
	for _, one := range f.spans {
		if !one[0].Before(last) {
			n, last = n+1, one[1]
		}
	}
	f.spans = nil
	return n
}

// Served returns how many requests came since it was called last: PUT and LIST, GET and HEAD, DELETE.
func (f *Fake) Served() (seen [3]uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen, f.seen = f.seen, seen
	return seen
}

// Classes returns the storage class of each object that was put with one.
func (f *Fake) Classes() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	classes := make(map[string]string)
	for key, o := range f.all {
		if o.class != "" {
			classes[key] = o.class
		}
	}
	return classes
}

// Fill stores small objects.
func (f *Fake) Fill(keys ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		f.all[key] = &object{data: []byte("x"), at: time.Now()}
	}
}

// Keys returns the keys of all objects.
func (f *Fake) Keys() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.all))
}
