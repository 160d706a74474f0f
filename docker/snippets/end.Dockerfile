# At the very end, in the last stage: no later step may have replaced dormant, or torch by one that
# it does not work with.
ARG DORMANT_PIN
RUN python3 -m torch_memory_saver._dormant build-info --expect-commit "${DORMANT_PIN%%@*}" || { \
        echo "what is installed is not dormant's torch_memory_saver of ${DORMANT_PIN%%@*}, but:" >&2; \
        python3 -m pip show torch_memory_saver >&2; exit 1; \
    }; \
    python3 -m pip check && python3 -m torch_memory_saver._dormant.check_torch
