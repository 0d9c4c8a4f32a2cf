// Package control lets a running job be shown and changed through a local socket.
package control
