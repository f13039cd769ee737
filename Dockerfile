# ropewalk in a container: one program, no shell, no root. Built from the checkout alone.
#
#   docker build -t ropewalk .
#   docker run --rm -p 127.0.0.1:8742:8742 -v ropewalk:/var/lib/ropewalk ropewalk

FROM node:22-bookworm-slim AS ui
WORKDIR /src/ui
COPY ui/package.json ui/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY ui ./
RUN npm run build

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock rustfmt.toml ./
COPY crates crates
COPY --from=ui /src/ui/dist/site ui/dist/site
RUN cargo build --release --locked -p ropewalk \
    && install -D target/release/ropewalk /out/usr/local/bin/ropewalk \
    && install -d -m 0700 /out/var/lib/ropewalk

# glibc, the certificates of public authorities, and a user without rights; nothing to log in to.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/usr/local/bin/ropewalk /usr/local/bin/ropewalk
# The folder with its owner and its mode: a volume that is mounted there for the first time takes them over.
COPY --from=build --chown=nonroot:nonroot /out/var/lib/ /var/lib/
ENV ROPEWALK_DATA=/var/lib/ropewalk
VOLUME /var/lib/ropewalk
EXPOSE 8742
# Others can reach a container's port only if it listens on all of its addresses; publish it on 127.0.0.1, as above.
ENTRYPOINT ["/usr/local/bin/ropewalk"]
CMD ["serve", "--listen", "0.0.0.0:8742"]
