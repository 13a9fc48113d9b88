// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package smoke

import "strings"

// manifests are the pods of the checks: a server on the first node, and pods that
// succeed if what they try works.
func manifests(nodes []string) string {
	return strings.NewReplacer(
		"NAMESPACE", namespace, "IMAGE", imageRef, "NODE1", nodes[0], "NODE2", nodes[1],
	).Replace(manifestText)
}

const manifestText = `
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: NAMESPACE}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: NAMESPACE, labels: {app: web}}
spec:
  nodeName: NODE1
  terminationGracePeriodSeconds: 1
  containers:
  - {name: web, image: IMAGE, args: [serve, ":8080"], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: service-same-node, namespace: NAMESPACE}
spec:
  nodeName: NODE1
  restartPolicy: OnFailure
  containers:
  - {name: probe, image: IMAGE, args: [get, "http://$(WEB_SERVICE_HOST)/"]}
---
apiVersion: v1
kind: Pod
metadata: {name: service-other-node, namespace: NAMESPACE}
spec:
  nodeName: NODE2
  restartPolicy: OnFailure
  containers:
  - {name: probe, image: IMAGE, args: [get, "http://$(WEB_SERVICE_HOST)/"]}
---
apiVersion: v1
kind: Pod
metadata: {name: service-by-name, namespace: NAMESPACE}
spec:
  nodeName: NODE2
  restartPolicy: OnFailure
  containers:
  - {name: probe, image: IMAGE, args: [get, "http://web/"]}
---
apiVersion: v1
kind: Pod
metadata: {name: api-from-pod, namespace: NAMESPACE}
spec:
  nodeName: NODE2
  restartPolicy: OnFailure
  containers:
  - {name: probe, image: IMAGE, args: [api]}
---
apiVersion: v1
kind: Pod
metadata: {name: image-volume, namespace: NAMESPACE}
spec:
  restartPolicy: Never
  containers:
  - name: probe
    image: IMAGE
    command: [/mounted/probe, ok]
    volumeMounts: [{name: programs, mountPath: /mounted}]
  volumes:
  - name: programs
    image: {reference: IMAGE, pullPolicy: Never}
---
apiVersion: v1
kind: Pod
metadata: {name: native-sidecar, namespace: NAMESPACE}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 1
  initContainers:
  - name: sidecar
    image: IMAGE
    restartPolicy: Always
    args: [serve, ":8080"]
    startupProbe: {httpGet: {port: 8080}, periodSeconds: 1}
  containers:
  - {name: probe, image: IMAGE, args: [get, "http://127.0.0.1:8080/"]}
---
apiVersion: v1
kind: Pod
metadata: {name: scheduling-gate, namespace: NAMESPACE}
spec:
  restartPolicy: Never
  schedulingGates: [{name: leasehold.dev/smoke}]
  containers:
  - {name: probe, image: IMAGE, args: [ok]}
---
apiVersion: v1
kind: Pod
metadata: {name: restart-all-containers, namespace: NAMESPACE}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: first, image: IMAGE, args: [ok]}
  containers:
  - name: probe
    image: IMAGE
    args: [exit-once, /state/mark]
    volumeMounts: [{name: state, mountPath: /state}]
    restartPolicy: Never
    restartPolicyRules:
    - {action: RestartAllContainers, exitCodes: {operator: In, values: [75]}}
  volumes: [{name: state, emptyDir: {}}]
`
