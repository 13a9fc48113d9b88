// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"io"
	"os"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
)

// Scheme knows the kinds of Kubernetes and Leasehold.
func Scheme() (*apiruntime.Scheme, error) {
	scheme := apiruntime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, v1alpha1.AddToScheme(scheme)
}

// ClientFor returns a client that reads live, as whoever config says.
func ClientFor(config *rest.Config) (client.Client, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// ReadObjects decodes each document of YAML files into a value that newObject
// makes. Fields that it does not have are an error.
func ReadObjects[T any](files ...string) ([]*T, error) {
	var objects []*T
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		read, err := decodeAll[T](f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, read...)
	}
	return objects, nil
}

func decodeAll[T any](r io.Reader) ([]*T, error) {
	var objects []*T
	decoder := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for {
		object := new(T)
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		}
		objects = append(objects, object)
	}
}
