// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dns answers the few questions that pods ask about Services, and says that
// every other name does not exist: the cluster has no way out that could know more.
package dns

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
)

const (
	typeA   = 1
	typeANY = 255
	classIN = 1

	headerSize = 12
	// lifetime of an answer in seconds: short, since tests move Services about.
	lifetime = 1
)

// Answer codes.
const (
	codeOK          = 0
	codeFailed      = 2
	codeNoSuchName  = 3
	codeUnsupported = 4
)

// question is the one question of a message.
type question struct {
	id    uint16
	flags uint16
	name  string // lower case, without the last dot
	kind  uint16
	raw   []byte // as it was asked, to be repeated in the answer
}

var errMessage = errors.New("message is no question of one name")

// parse reads a query. Names in a question are never compressed.
func parse(message []byte) (question, error) {
	if len(message) < headerSize {
		return question{}, errMessage
	}
	q := question{id: binary.BigEndian.Uint16(message), flags: binary.BigEndian.Uint16(message[2:])}
	if binary.BigEndian.Uint16(message[4:]) != 1 || q.flags&0x8000 != 0 {
		return q, errMessage
	}
	var labels []string
	at := headerSize
	for {
		if at >= len(message) {
			return q, errMessage
		}
		size := int(message[at])
		at++
		if size == 0 {
			break
		}
		if size > 63 || at+size > len(message) {
			return q, errMessage
		}
		labels = append(labels, strings.ToLower(string(message[at:at+size])))
		at += size
	}
	if at+4 > len(message) {
		return q, errMessage
	}
	q.name, q.kind = strings.Join(labels, "."), binary.BigEndian.Uint16(message[at:])
	q.raw = message[headerSize : at+4]
	return q, nil
}

// reply is the answer to a question: addresses, or a code that says why not.
func (q question) reply(code uint16, addresses []netip.Addr) []byte {
	if q.kind != typeA && q.kind != typeANY {
		addresses = nil // the name exists, but not with this kind of record
	}
	const response, authoritative, recursionWanted = 0x8000, 0x0400, 0x0100
	message := make([]byte, headerSize, 512)
	binary.BigEndian.PutUint16(message, q.id)
	binary.BigEndian.PutUint16(message[2:], response|authoritative|q.flags&recursionWanted|code)
	if q.raw == nil {
		return message
	}
	binary.BigEndian.PutUint16(message[4:], 1)
	binary.BigEndian.PutUint16(message[6:], uint16(len(addresses)))
	message = append(message, q.raw...)
	for _, address := range addresses {
		const nameOfQuestion = 0xc000 | headerSize
		message = binary.BigEndian.AppendUint16(message, nameOfQuestion)
		message = binary.BigEndian.AppendUint16(message, typeA)
		message = binary.BigEndian.AppendUint16(message, classIN)
		message = binary.BigEndian.AppendUint32(message, lifetime)
		message = binary.BigEndian.AppendUint16(message, 4)
		four := address.As4()
		message = append(message, four[:]...)
	}
	return message
}
