// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers lists Leasehold's controllers and wires them to a
// manager. Each controller observes, plans and applies; the plans are pure
// packages.
package controllers
