// Package gatehouse keeps the gates of one run: one for each device it touches.
package gatehouse
