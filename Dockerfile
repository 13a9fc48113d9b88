# Copyright The Leasehold Authors.
# SPDX-License-Identifier: Apache-2.0

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY controllers controllers
COPY fencing fencing
COPY internal internal
COPY leaderelect leaderelect
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /out/ ./cmd/manager ./cmd/agent

# The programs are static and need nothing else: no shell, no libraries, and no
# certificates, since the API server's comes with the service account.
FROM scratch AS agent
COPY --from=build /out/agent /agent
USER 65532:65532
ENTRYPOINT ["/agent"]

FROM scratch AS manager
COPY --from=build /out/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
