// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package refusal tells the API server's refusals from its other answers. A
// refusal is an answer to a write that the next try will get again, until
// somebody changes a policy, a webhook, a quota or a role. It is told from a
// lost race, where another writer was faster, and from an outage, where nobody
// answers.
package refusal

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// LostTest reports whether a `test` of a JSON patch failed: the object is not
// the one that was read, or has changed since. The API server answers that with
// Unprocessable Entity, as a policy or a validation may, but with a text of its
// own that speaks of no object.
func LostTest(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code == http.StatusUnprocessableEntity && answer.Status().Message == brokenPatch
}

// brokenPatch is what the API server says of a patch that does not apply.
var brokenPatch = apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "", 0, false).Status().Message

// Is reports whether err is the API server's refusal of a write.
func Is(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || LostTest(err) {
		return false
	}
	switch code := answer.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests:
		return false
	case http.StatusInternalServerError: // A webhook that does not answer.
		return true
	default:
		return code >= 400 && code < 500
	}
}
