// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"leasehold.dev/test/cluster/internal/pki"
)

// The certificates go inline, so that the file can be copied elsewhere.
const kubeconfigFormat = `apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[4]s
  user:
    client-certificate-data: %[5]s
    client-key-data: %[6]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[4]s
current-context: %[1]s
`

// WriteKubeconfig writes a kubeconfig for one user of one cluster.
func WriteKubeconfig(file, cluster, server, user, caFile string, identity pki.Pair) error {
	var encoded [3]string
	for i, name := range []string{caFile, identity.Cert, identity.Key} {
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", user, err)
		}
		encoded[i] = base64.StdEncoding.EncodeToString(data)
	}
	text := fmt.Sprintf(kubeconfigFormat, cluster, server, encoded[0], user, encoded[1], encoded[2])
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("directory of kubeconfig: %w", err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return nil
}
