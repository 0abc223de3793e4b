# The kelpie binary without its demo and nothing else, for a user without rights.
#
#   docker build --tag REGISTRY/kelpie:0.1.0 .

FROM rust:1.95.0-bookworm AS build
WORKDIR /kelpie
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/kelpie/target \
    cargo build --profile dist --locked --package kelpie --no-default-features && \
    install -D target/dist/kelpie /image/kelpie && \
    ln --symbolic kelpie /image/dependency-watchdog

FROM gcr.io/distroless/cc-debian12:nonroot
# Under its second name it is what Gardener's Deployments of dependency-watchdog start.
COPY --from=build /image/ /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/kelpie"]
