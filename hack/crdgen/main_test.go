// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const raw = `spec:
  versions:
  - schema:
      openAPIV3Schema:
        description: the kind
        properties:
          spec:
            description: ours
            properties:
              template:
                description: ours too
                properties:
                  description:
                    description: of a field that is called so
                    type: string
                  spec:
                    description: theirs
                    properties:
                      activeDeadlineSeconds:
                        type: integer
                      containers:
                        description: theirs
                        items:
                          properties:
                            image:
                              description: theirs
                              type: string
                            name:
                              description: theirs
                              type: string
                            volumeMounts:
                              items:
                                properties:
                                  mountPath:
                                    type: string
                        type: array
                      initContainers:
                        items:
                          properties:
                            image:
                              type: string
                          required:
                          - name
                      restartPolicy:
                        type: string
`

const finished = `spec:
  versions:
  - schema:
      openAPIV3Schema:
        description: the kind
        properties:
          spec:
            description: ours
            properties:
              template:
                description: ours too
                properties:
                  description:
                    type: string
                  spec:
                    properties:
                      activeDeadlineSeconds:
                        maximum: 2147483647
                        minimum: 1
                        type: integer
                      containers:
                        items:
                          properties:
                            image:
                              minLength: 1
                              type: string
                            name:
                              maxLength: 63
                              type: string
                            volumeMounts:
                              items:
                                properties:
                                  mountPath:
                                    maxLength: 2048
                                    type: string
                              maxItems: 128
                          required:
                          - image
                          - name
                        maxItems: 64
                        minItems: 1
                        type: array
                      initContainers:
                        items:
                          properties:
                            image:
                              minLength: 1
                              type: string
                          required:
                          - image
                          - name
                      restartPolicy:
                        enum:
                        - Always
                        - OnFailure
                        - Never
                        type: string
                required:
                - spec
`

func TestFinish(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{"once": raw, "twice": finished} {
		got, err := finish([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(finished, string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestFinishRefuses(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"what is no definition":       "kind: ConfigMap",
		"a template without the path": strings.ReplaceAll(raw, "restartPolicy", "restart"),
	} {
		if _, err := finish([]byte(in)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
