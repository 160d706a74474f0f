/* Memory that is short, and the thread as the real call leaves it. */
#include "gpu.h"
#include "saver.h"

enum { ABSURD = 1 };

/* The runtime's own answer, and its own last error. */
static void refused(size_t bytes) {
    void *block = (void *)ABSURD;
    OK(GPU(GetLastError)());
    IS(GPU(Malloc)(&block, bytes), OUT_OF_MEMORY);
    IS(GPU(PeekAtLastError)(), OUT_OF_MEMORY);
    IS(GPU(GetLastError)(), OUT_OF_MEMORY);
    OK(GPU(GetLastError)());
}

static void out_of_memory(void) {
    size_t start = free_bytes();
    enter("big", true);
    void *half = allocate(32 * MIB);
    fill(half, 1, 32 * MIB);
    size_t now = free_bytes();
    refused(40 * MIB);
    refused((size_t)1 << 40);
    refused(SIZE_MAX);
    IS(free_bytes(), now);
    EXPECT(half, 1, 32 * MIB);
    OK(GPU(Free)(half));
    void *most = allocate(40 * MIB);
    fill(most, 2, 40 * MIB);
    OK(tms.pause(NULL));
    leave();
    void *foreign = allocate(40 * MIB);
    IS(tms.resume("big"), DORMANT_STATUS_OUT_OF_MEMORY);
    IS(free_bytes(), start - 40 * MIB);
    OK(GPU(Free)(foreign));
    OK(tms.resume("big"));
    EXPECT(most, 2, 40 * MIB);
    OK(GPU(Free)(most));
    IS(free_bytes(), start);
}

/* The engine's memory is not this runtime's: its kernels could not use it. */
static void another_vendors_engine(void) {
    void *foreign = allocate(GRANULE), *block = NULL;
    enter("w", false);
    IS(GPU(Malloc)(&block, GRANULE), 801);
    HOLDS(block == NULL);
    DormantError error = {.size = sizeof error};
    OK(dormant.last_error(&error));
    IS(error.status, DORMANT_STATUS_NOT_SUPPORTED);
    HOLDS(strstr(error.text, "sim") != NULL);
    OK(GPU(Free)(foreign));
}

/* For torch an allocator that has nothing answers NULL. */
static void torch_out_of_memory(void) {
    size_t start = free_bytes();
    enter("big", false);
    HOLDS(tms.torch_malloc((ssize_t)1 << 40, 0, NULL) == NULL);
    void *block = tms.torch_malloc(40 * MIB, 0, NULL);
    HOLDS(block != NULL);
    HOLDS(tms.torch_malloc(40 * MIB, 0, NULL) == NULL);
    HOLDS(tms.torch_malloc(-1, 0, NULL) == NULL);
    HOLDS(tms.torch_malloc(GRANULE, -1, NULL) == NULL);
    HOLDS(tms.torch_malloc(GRANULE, 77, NULL) == NULL);
    leave();
    HOLDS(tms.torch_malloc(40 * MIB, 0, NULL) == NULL);
    void *foreign = tms.torch_malloc(4 * MIB, 0, NULL);
    HOLDS(foreign != NULL);
    OK(tms.pause("big"));
    IS(free_bytes(), start - 4 * MIB);
    tms.torch_free(foreign, 4 * MIB, 0, NULL);
    tms.torch_free(block, 40 * MIB, 0, NULL);
    tms.torch_free(NULL, 0, 0, NULL);
    OK(tms.resume("big"));
    IS(free_bytes(), start);
}

/* Says its one line on standard error, which the test reads. */
static void margin(void) {
    size_t start = free_bytes();
    tms.set_margin(24 * MIB);
    enter("w", true);
    void *block = allocate(32 * MIB);
    refused(16 * MIB);
    refused(16 * MIB);
    HOLDS(tms.torch_malloc(16 * MIB, 0, NULL) == NULL);
    leave();
    OK(tms.pause("w"));
    void *foreign = allocate(32 * MIB); /* Of foreign memory no margin is kept. */
    void *more;
    enter("w", true);
    refused(16 * MIB);
    leave();
    OK(tms.resume("w")); /* Nor for a resume. */
    IS(free_bytes(), start - 64 * MIB);
    OK(GPU(Free)(foreign));
    tms.set_margin(0);
    enter("w", true);
    OK(GPU(Malloc)(&more, 16 * MIB));
    OK(GPU(Free)(more));
    OK(GPU(Free)(block));
    IS(free_bytes(), start);
}

#ifdef FOR_HIP
static void *context(void) {
    int (*contexts)(void) = driver("double_contexts");
    return (void *)(intptr_t)contexts();
}
#else
static void *context(void) {
    int (*get)(void **) = driver("cuCtxGetCurrent");
    void *context;
    int code = get(&context);
    return code == NOT_INITIALIZED ? NULL : context;
}
#endif

static void *fresh_thread(void *ours) {
#ifndef FOR_HIP
    HOLDS(context() == NULL);
#endif
    if (ours) enter("w", false);
    void *block = allocate(GRANULE);
    HOLDS(context() != NULL);
    fill(block, 1, GRANULE);
    OK(GPU(Free)(block));
    if (ours) leave();
    return NULL;
}

static void a_context_is_current(void) {
    on_a_thread(fresh_thread, NULL);
    on_a_thread(fresh_thread, &(int){1});
}

/* A first call that is ours. */
static void the_first_call(void) {
    on_a_thread(fresh_thread, &(int){1});
    OK(GPU(GetLastError)());
}

/* Whoever takes the context away gets it back, as from the real call. */
static void a_context_that_was_taken_away(void) {
    enter("w", false);
    OK(GPU(Free)(allocate(GRANULE)));
#ifndef FOR_HIP
    int (*set)(void *) = driver("cuCtxSetCurrent");
    OK(set(NULL));
    void *block = allocate(GRANULE);
    HOLDS(context() != NULL);
    OK(GPU(Free)(block));
#endif
}

static void *on_the_second(void *block) {
    OK(GPU(SetDevice)(1));
    enter("w", false);
    *(void **)block = allocate(GRANULE);
    leave();
    return NULL;
}

static void the_current_device(void) {
    void *block;
    size_t start = free_bytes();
    on_a_thread(on_the_second, &block);
    IS(free_bytes(), start);
    int device;
    OK(GPU(GetDevice)(&device));
    IS(device, 0);
    find_dormant();
    IS(found(block).device, 1);
    OK(GPU(SetDevice)(1));
    IS(free_bytes(), start - GRANULE);
    OK(GPU(SetDevice)(0));
    OK(GPU(Free)(block));
    OK(GPU(GetDevice)(&device));
    IS(device, 0);
}

int main(int argc, char **argv) {
    find_tms();
    find_dormant();
    RUN(another_vendors_engine);
    RUN(out_of_memory);
    RUN(torch_out_of_memory);
    RUN(margin);
    RUN(a_context_is_current);
    RUN(the_first_call);
    RUN(a_context_that_was_taken_away);
    RUN(the_current_device);
    return NO_SUCH_CASE;
}
