# The image of one platform: the binary, and what is said of what it is made of. hack/image fills the context, a folder for each
# architecture, and builds reproducibly; any builder that knows TARGETARCH can build the same from a context that is filled.
FROM scratch
ARG TARGETARCH
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="policy-sync" \
      org.opencontainers.image.description="Syncs Gateway API policies from a hub to its spokes through Open Cluster Management" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY ${TARGETARCH}/ /
USER 65532:65532
ENTRYPOINT ["/usr/bin/policy-sync"]
