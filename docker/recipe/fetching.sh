# Sourced by the steps that fetch: what they fetch is kept in the cache mount, and where a proxy
# inspects TLS they trust the certificates that came as the build secret `ca`.
# shellcheck shell=sh

export CARGO_HOME=/var/cache/dormant/cargo PIP_CACHE_DIR=/var/cache/dormant/pip
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore CARGO_TERM_COLOR=never
if [ -s /run/secrets/ca ]; then
    export CARGO_HTTP_CAINFO=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca PIP_CERT=/run/secrets/ca
fi
