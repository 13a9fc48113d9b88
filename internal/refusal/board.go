// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"regexp"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Board remembers what the API server refused, by the object that waits for the
// write, until a write for it passes, so that its condition can say so. The zero
// value is ready; a nil Board remembers nothing.
type Board struct {
	mu      sync.Mutex
	all     map[types.NamespacedName]string
	changes chan event.GenericEvent
}

// enough changes that nobody has looked at yet.
const enough = 1024

// NewBoard returns a Board whose Changes can be followed.
func NewBoard() *Board { return &Board{changes: make(chan event.GenericEvent, enough)} }

// Changes delivers the objects of which the board says something else. One may
// be missed if nobody follows; the next look at the object makes up for it.
func (b *Board) Changes() <-chan event.GenericEvent { return b.changes }

// Note takes in what came of the writes for an object. A refusal is remembered,
// a success ends it, and any other answer leaves it as it was. It reports
// whether the board says something else now.
func (b *Board) Note(object client.Object, err error) (changed bool) {
	switch {
	case b == nil:
		return false
	case err == nil:
		return b.set(object, "")
	case Is(err):
		return b.set(object, err.Error())
	}
	return false
}

// Same reports whether two texts say the same but for numbers: of a connection, of
// what is used of a quota, of a time.
func Same(a, b string) bool {
	return numbers.ReplaceAllString(a, "0") == numbers.ReplaceAllString(b, "0")
}

var numbers = regexp.MustCompile(`[0-9]+`)

func (b *Board) set(object client.Object, text string) bool {
	key := client.ObjectKeyFromObject(object)
	b.mu.Lock()
	defer b.mu.Unlock()
	if Same(b.all[key], text) {
		return false
	}
	if b.all == nil {
		b.all = map[types.NamespacedName]string{}
	}
	if text == "" {
		delete(b.all, key)
	} else {
		b.all[key] = text
	}
	select {
	case b.changes <- event.GenericEvent{Object: object}:
	default:
	}
	return true
}

// Of is the error of the write that is refused; empty: none.
func (b *Board) Of(key types.NamespacedName) string {
	if b == nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[key]
}

// Forget drops what is known of an object that is gone.
func (b *Board) Forget(key types.NamespacedName) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, key)
}
