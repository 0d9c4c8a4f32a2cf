// Package notify reports failures and silence to people: by mail, webhook, desktop and healthcheck pings, and metrics for Prometheus.
package notify
