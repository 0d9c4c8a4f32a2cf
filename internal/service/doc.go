// Package service installs the service in systemd or launchd, and shows its state.
package service
