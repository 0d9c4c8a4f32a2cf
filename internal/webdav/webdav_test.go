package webdav_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/internal/webdav"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// client sends requests to a server with one backup of src.
type client struct {
	t      *testing.T
	at     string
	src    string
	loaded *atomic.Int64 // blobs of content
}

// counted counts the blobs of content that are loaded from a repository.
type counted struct {
	*repo.Repository
	loaded *atomic.Int64
}

func (c counted) LoadBlob(ctx context.Context, id format.ID) ([]byte, error) {
	c.loaded.Add(1)
	return c.Repository.LoadBlob(ctx, id)
}

func serve(t *testing.T, files map[string]string) *client {
	t.Helper()
	src := testkit.TempDir(t)
	kit.Written(t, src, files)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	r, err := repo.Open(t.Context(), e.Store, e.Open)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	root := view.NewRepository(r.LoadBlob, r.Snapshots, time.Now).Root()
	var loaded atomic.Int64
	server := httptest.NewServer(webdav.Handler(root, counted{r, &loaded}.LoadBlob, "right", func(path string, err error) {
		t.Errorf("%s: %v", path, err)
	}))
	t.Cleanup(server.Close)
	return &client{t, server.URL, src, &loaded}
}

// do sends a request and returns status and body. header are pairs.
func (c *client) do(method, path, password string, header ...string) (*http.Response, string) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.at+path, nil)
	require.NoError(c.t, err)
	request.SetBasicAuth(webdav.User, password)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(c.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, response.Body.Close())
	return response, string(body)
}

func TestFoldersAndFiles(t *testing.T) {
	content := string(testkit.Noise(1, 3<<20))
	c := serve(t, map[string]string{"large.bin": content, "sub folder/text.txt": "some text"})
	root := filepath.Join("/latest", c.src)
	response, body := c.do("PROPFIND", root, "right", "Depth", "1")
	require.Equal(t, http.StatusMultiStatus, response.StatusCode)
	require.Contains(t, body, "large.bin")
	require.Contains(t, body, "sub%20folder")
	require.Contains(t, body, "3145728")
	response, body = c.do("GET", root+"/sub%20folder/text.txt", "right")
	require.Equal(t, "some text", body)
	require.Equal(t, "text/plain; charset=utf-8", response.Header.Get("Content-Type"))
	tag := response.Header.Get("ETag")
	response, _ = c.do("GET", root+"/sub%20folder/text.txt", "right", "If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, response.StatusCode)
	response, body = c.do("GET", root+"/large.bin", "right", "Range", "bytes=1000000-2000000")
	require.Equal(t, http.StatusPartialContent, response.StatusCode)
	require.True(t, content[1000000:2000001] == body)
	require.NotEqual(t, tag, response.Header.Get("ETag"))
	response, body = c.do("PROPFIND", "/", "right", "Depth", "1")
	require.Equal(t, http.StatusMultiStatus, response.StatusCode)
	require.Contains(t, body, "/latest/")
	response, _ = c.do("GET", root+"/absent", "right")
	require.Equal(t, http.StatusNotFound, response.StatusCode)
}

// TestListingLoadsNoContent: not even for names without a known type, where the library would read the first bytes.
func TestListingLoadsNoContent(t *testing.T) {
	files := map[string]string{}
	for i := range 20 {
		name := []string{"a.txt", "b.unknown", "c"}[i%3]
		files[fmt.Sprint(i)+name] = string(testkit.Noise(uint64(i), 100_000))
	}
	c := serve(t, files)
	folder := filepath.Join("/latest", c.src)
	response, body := c.do("PROPFIND", folder, "right", "Depth", "1")
	require.Equal(t, http.StatusMultiStatus, response.StatusCode)
	require.Equal(t, len(files), strings.Count(body, "<D:getcontentlength>100000<"))
	require.Zero(t, c.loaded.Load())
	_, body = c.do("GET", folder+"/2c", "right")
	require.Len(t, body, 100_000)
	require.NotZero(t, c.loaded.Load())
}

func TestOnlyReadingWithThePassword(t *testing.T) {
	c := serve(t, map[string]string{"a": "1"})
	for _, password := range []string{"", "wrong", "right "} {
		response, body := c.do("GET", filepath.Join("/latest", c.src, "a"), password)
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
		require.NotContains(t, body, "1")
	}
	for _, method := range []string{"PUT", "DELETE", "MKCOL", "MOVE", "COPY", "LOCK", "PROPPATCH", "POST"} {
		response, _ := c.do(method, filepath.Join("/latest", c.src, "a"), "right", "Destination", "/b")
		require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode, method)
	}
	for _, depth := range []string{"infinity", ""} {
		response, body := c.do("PROPFIND", "/", "right", "Depth", depth)
		require.Equal(t, http.StatusForbidden, response.StatusCode)
		require.True(t, strings.Contains(body, "Depth"))
	}
}
