# A real Kubernetes for trying things and for the tests, built from Go modules: test/cluster.
# CLUSTER_FLAGS passes flags on, such as CLUSTER_FLAGS='--nodes 3'.

CLUSTER = go run ./test/cluster/cmd/cluster

.PHONY: control-plane
control-plane: ## Start etcd and an API server on loopback (any user; no nodes)
	$(CLUSTER) control-plane up $(CLUSTER_FLAGS)

.PHONY: cluster
cluster: ## Start a Kubernetes cluster with nodes (root on Linux, or KUBECONFIG's)
	$(CLUSTER) up $(CLUSTER_FLAGS)

.PHONY: cluster-down
cluster-down: ## End the cluster and remove all that it made
	$(CLUSTER) down $(CLUSTER_FLAGS)

.PHONY: cluster-status
cluster-status: ## Tell what runs of the cluster and whether it is healthy
	$(CLUSTER) status $(CLUSTER_FLAGS)
