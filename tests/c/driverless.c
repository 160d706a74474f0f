/* A runtime whose driver we cannot use, or that has none. */
#include "gpu.h"
#include "saver.h"

enum { INSUFFICIENT_DRIVER = 35 };

static void no_driver_at_all(void) {
    void *block;
    find_tms();
    IS(GPU(Malloc)(&block, GRANULE), INSUFFICIENT_DRIVER);
    enter("w", true);
    IS(GPU(Malloc)(&block, GRANULE), INSUFFICIENT_DRIVER);
    IS(GPU(GetLastError)(), INSUFFICIENT_DRIVER);
    IS(GPU(Free)(NULL), INSUFFICIENT_DRIVER);
    HOLDS(tms.torch_malloc(GRANULE, 0, NULL) == NULL);
    find_dormant();
    HOLDS(dormant.backend() == NULL);
    DormantError error = {.size = sizeof error};
    OK(dormant.last_error(&error));
    IS(error.status, DORMANT_STATUS_NO_DRIVER);
    SAME(error.kind, "no_driver");
}

/* The runtime gives memory that we cannot pause: it works, and a pause says that it does not. */
static void none_for_us(void) {
    find_tms();
    OK(tms.pause(NULL)); /* Nothing was asked for yet. */
    enter("w", true);
    void *block = allocate(GRANULE);
    fill(block, 1, GRANULE);
    IS(virtual_calls(), 0);
    IS(tms.pause(NULL), DORMANT_STATUS_NO_DRIVER);
    IS(tms.resume(NULL), DORMANT_STATUS_NO_DRIVER);
    EXPECT(block, 1, GRANULE);
    OK(GPU(Free)(block));
}

static void no_library(void) {
    enum { NO_DRIVER = 14 };
    find_tms();
    enter("w", true);
    HOLDS(!tms.get_region());
    void *block = allocate(GRANULE);
    IS(virtual_calls(), 0);
    IS(tms.pause(NULL), NO_DRIVER);
    IS(tms.resume(NULL), NO_DRIVER);
    HOLDS(tms.backup(block, 1) == NULL);
    OK(GPU(Free)(block));
    IS(GPU(Free)(block), INVALID_VALUE);
}

int main(int argc, char **argv) {
    RUN(no_driver_at_all);
    RUN(none_for_us);
    RUN(no_library);
    return NO_SUCH_CASE;
}
