/* The conformance suite from C: where it is refused. argv[1] is the library. */
#include "check.h"

#include <dlfcn.h>

#include "dormant.h"

static __typeof__(&dormant_verify) verify;
static int cases, nested;

static void counted(const char *area, const char *name, int32_t outcome, uint64_t ms, const char *reason,
                    void *user) {
    (void)area, (void)name, (void)outcome, (void)ms, (void)reason, (void)user;
    cases++;
}

static void begins_another(const char *area, const char *name, int32_t outcome, uint64_t ms,
                           const char *reason, void *user) {
    const uint32_t device = 0;
    if (!nested) {
        nested = verify("cuda", &device, 1, 128 << 20, 0, counted, NULL);
    }
    (void)area, (void)name, (void)outcome, (void)ms, (void)reason, (void)user;
}

int main(int count, char **arguments) {
    const uint32_t device = 0;
    uint64_t capture = 0;
    IS(count, 2);
    void *library = dlopen(arguments[1], RTLD_NOW);
    HOLDS(library);
    verify = (__typeof__(verify))dlsym(library, "dormant_verify");
    __typeof__(&dormant_capture_begin) begin =
        (__typeof__(begin))dlsym(library, "dormant_capture_begin");
    __typeof__(&dormant_capture_end) end = (__typeof__(end))dlsym(library, "dormant_capture_end");

    OK(begin(&capture));
    IS(verify("cuda", &device, 1, 128 << 20, 0, counted, NULL), DORMANT_STATUS_BUSY);
    OK(end(capture));
    OK(verify("cuda", &device, 1, 128 << 20, 0, begins_another, NULL));
    IS(nested, DORMANT_STATUS_WRONG_STATE);
    IS(cases, 0);
    return 0;
}
