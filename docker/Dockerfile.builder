# What both vendors' images take: the wheels with one backend, and the parts of their self-test.
# The sources are the named context `source`, a clone with its `.git`: the identity in the library
# comes from there. `docker/build` makes one of the wanted commit.
ARG RUST_IMAGE=docker.io/library/rust:1.95.0-bookworm
FROM ${RUST_IMAGE} AS tools
COPY recipe/packages /recipe/
RUN /recipe/packages gcc git libc6-dev python3-venv
COPY recipe/fetching.sh recipe/tools /recipe/
COPY requirements.lock /
RUN --mount=type=cache,target=/var/cache/dormant --mount=type=secret,id=ca \
    /recipe/tools /requirements.lock /opt/tools

FROM tools AS checkout
# The named context, no stage.
# hadolint ignore=DL3022
COPY --from=source . /source

# The same for both backends, and so built once.
FROM checkout AS parts
COPY recipe/parts /recipe/
RUN --mount=type=cache,target=/var/cache/dormant --mount=type=secret,id=ca \
    /recipe/parts /source /parts

FROM checkout AS wheels
COPY recipe/wheels recipe/licences.py /recipe/
ARG BACKEND
# Which version of torch_memory_saver the drop-in stands for; without one, the wheel's default.
ARG TMS_VERSION
RUN --mount=type=cache,target=/var/cache/dormant --mount=type=secret,id=ca \
    /recipe/wheels /source "${BACKEND:?is cuda or hip}" /opt/tools /out "${TMS_VERSION}"

# Nothing but files: other images take them from here.
FROM scratch
ARG BACKEND
COPY --from=wheels /out /
COPY --from=parts /parts/${BACKEND} /verify
COPY recipe/install recipe/packages recipe/self_test.py /recipe/
