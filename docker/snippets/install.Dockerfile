# dormant's torch_memory_saver, for the stage that has Python and torch. No compiler is needed.
# The one pin: `ARG DORMANT_PIN=<commit>@sha256:<hash of SHA256SUMS>` above the first FROM.
ARG DORMANT_PIN
# A folder of the build context, or a URL, that has SHA256SUMS and the wheels.
ARG DORMANT_WHEELS=dormant-wheels
RUN --mount=type=bind,target=/dormant-context \
    set -eu; \
    expr "x${DORMANT_PIN-}" : 'x[0-9a-f]\{40\}@sha256:[0-9a-f]\{64\}$' >/dev/null || { \
        echo "DORMANT_PIN is '${DORMANT_PIN-}', not <commit>@sha256:<hash of SHA256SUMS>" >&2; exit 1; \
    }; \
    into=$(mktemp -d); \
    fetch() { \
        case "${DORMANT_WHEELS}" in \
            *://*) python3 -c 'import sys, urllib.request as r; r.urlretrieve(*sys.argv[1:])' \
                "${DORMANT_WHEELS}/$1" "${into}/$1" ;; \
            *) cp "/dormant-context/${DORMANT_WHEELS}/$1" "${into}/$1" ;; \
        esac; \
    }; \
    fetch SHA256SUMS; \
    echo "${DORMANT_PIN#*@sha256:}  ${into}/SHA256SUMS" >"${into}/pinned"; \
    sha256sum --check --strict --quiet "${into}/pinned"; \
    wheel=$(sed -n "s/^[0-9a-f]\{64\}  \(torch_memory_saver-.*_$(uname -m)\.whl\)$/\1/p" \
        "${into}/SHA256SUMS"); \
    fetch "${wheel:?none in SHA256SUMS for this processor}"; \
    grep -F "  ${wheel}" "${into}/SHA256SUMS" >"${into}/pinned"; \
    sed -i "s|  |  ${into}/|" "${into}/pinned"; \
    sha256sum --check --strict --quiet "${into}/pinned"; \
    python3 -m pip install --no-index --no-deps --no-cache-dir --force-reinstall "${into}/${wheel}"; \
    rm -r "${into}"
