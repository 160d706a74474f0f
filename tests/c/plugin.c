/* A library that is linked to the runtime, for programs that open it for themselves alone. */
#include "gpu.h"
#include "saver.h"

__attribute__((visibility("default"))) void plugin(void) {
    find_tms();
    size_t start = free_bytes();
    long long before = virtual_calls();
    void *block = allocate(GRANULE);
    OK(GPU(Free)(block));
    IS(virtual_calls(), before);
    enter("plugin", true);
    block = allocate(GRANULE);
    leave();
    HOLDS(virtual_calls() > before);
    fill(block, 3, GRANULE);
    OK(tms.pause("plugin"));
    IS(free_bytes(), start);
    OK(tms.resume("plugin"));
    EXPECT(block, 3, GRANULE);
    OK(GPU(Free)(block));
    IS(GPU(Free)(block), INVALID_VALUE);
    IS(free_bytes(), start);
}
