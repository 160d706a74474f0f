/* Several of our files in one process. COPY is a byte copy of libdormant.so, TORCH_SHIM a byte copy
 * of the small file, OTHER_BUILD a libdormant.so of another build. */
#include "gpu.h"
#include "saver.h"

static void three_files(void) {
    size_t start = free_bytes();
    find_tms();
    enter("w", true);
    void *block = allocate(GRANULE);
    fill(block, 5, GRANULE);
    leave();
    find_dormant_in(open_library(getenv("COPY")));
    IS(found(block).state, DORMANT_STATE_ACTIVE);
    OK(dormant.pause(NULL, 0, NULL, NULL));
    IS(free_bytes(), start);
    find_tms_in(open_library(getenv("TORCH_SHIM")));
    const unsigned char *saved = tms.backup(block, GRANULE);
    HOLDS(saved && saved[0] == 5 && saved[GRANULE - 1] == 5);
    /* Regions are one as well, and so are the ways to allocate. */
    uint64_t entered = push("x", DORMANT_POLICY_HOST);
    HOLDS(tms.get_region());
    SAME(tms.get_tag(), "x");
    void *torch = tms.torch_malloc(GRANULE, 0, NULL);
    HOLDS(torch != NULL);
    SAME(found(torch).tag, "x");
    tms.set_tag("y");
    void *hooked = allocate(GRANULE);
    SAME(found(hooked).tag, "y");
    OK(dormant.region_pop(entered));
    HOLDS(!tms.get_region());
    OK(tms.resume(NULL));
    EXPECT(block, 5, GRANULE);
    OK(dormant.free(block));
    IS(dormant.free(block), DORMANT_STATUS_NOT_FOUND);
    HOLDS(strstr(last_text(), "no block") != NULL);
    tms.torch_free(torch, GRANULE, 0, NULL);
    OK(GPU(Free)(hooked));
    IS(free_bytes(), start);
}

/* A copy that is opened for all to see stands behind the first in every look-up. */
static void global_copy(void) {
    size_t start = free_bytes();
    HOLDS(dlopen(getenv("COPY"), RTLD_NOW | RTLD_GLOBAL) != NULL);
    find_tms();
    find_dormant_in(open_library(getenv("COPY")));
    enter("w", true);
    void *block = allocate(GRANULE);
    fill(block, 6, GRANULE);
    OK(dormant.pause(NULL, 0, NULL, NULL));
    IS(free_bytes(), start);
    OK(tms.resume(NULL));
    EXPECT(block, 6, GRANULE);
    OK(GPU(Free)(block));
    IS(GPU(Free)(block), INVALID_VALUE);
    leave();
    block = allocate(GRANULE);
    OK(GPU(Free)(block));
    IS(free_bytes(), start);
}

/* With a second file of ours behind the first in LD_PRELOAD: each call passes both hooks. */
static void chained(void) {
    size_t start = free_bytes();
    void *stream, *graph, *block;
    find_tms();
    find_dormant();
    OK(GPU(StreamCreate)(&stream));
    enter("w", true);
    void *kept = allocate(GRANULE);
    fill(kept, 7, GRANULE);
    IS(GPU(Malloc)(&block, (size_t)1 << 40), OUT_OF_MEMORY);
    IS(GPU(GetLastError)(), OUT_OF_MEMORY);
    HOLDS(GPU(StreamBeginCapture)(stream, 77) != 0);
    OK(GPU(StreamBeginCapture)(stream, 0));
    IS(tms.pause(NULL), DORMANT_STATUS_BUSY);
    OK(GPU(StreamEndCapture)(stream, &graph));
    OK(tms.pause(NULL));
    OK(tms.resume(NULL));
    EXPECT(kept, 7, GRANULE);
    OK(GPU(Free)(kept));
    IS(GPU(Free)(kept), INVALID_VALUE);
    leave();
    block = allocate(GRANULE);
    OK(GPU(Free)(block));
    IS(free_bytes(), start);
}

enum { BOTH_HOOKS = 3 };

/* Whoever wants to know whether hooks are in place is told by any file. */
static void bound(void) {
    find_dormant();
    IS(dormant.hooks_bound(), BOTH_HOOKS);
    find_dormant_in(open_library(getenv("COPY")));
    IS(dormant.hooks_bound(), BOTH_HOOKS);
}

/* Nothing is preloaded, and torch calls us by name. */
static void torch_mode(void) {
    size_t start = free_bytes();
    void *library = open_library(getenv("TORCH_SHIM"));
    find_tms_in(library);
    OK(dlclose(library)); /* It stays: others have its functions. */
    void *foreign = tms.torch_malloc(GRANULE, 0, NULL);
    HOLDS(foreign != NULL);
    fill(foreign, 1, GRANULE);
    IS(virtual_calls(), 0);
    tms.torch_free(foreign, GRANULE, 0, NULL);
    enter("w", true);
    void *block = tms.torch_malloc(GRANULE, 0, NULL), *plain = allocate(GRANULE);
    fill(block, 2, GRANULE);
    leave();
    OK(tms.pause(NULL));
    IS(free_bytes(), start - GRANULE);
    OK(GPU(Free)(plain));
    IS(GPU(Free)(block), INVALID_VALUE); /* The runtime does not know it. */
    OK(tms.resume(NULL));
    EXPECT(block, 2, GRANULE);
    tms.torch_free(block, GRANULE, 0, NULL);
    IS(free_bytes(), start);
    find_dormant();
    IS(dormant.hooks_bound(), 0);
}

static pthread_barrier_t both;

static void *open_and_allocate(void *path) {
    pthread_barrier_wait(&both);
    void *library = open_library(path);
    __typeof__(&dormant_allocate) allocate = symbol(library, "dormant_allocate");
    DormantRegion region = {.size = sizeof region, .tag = "raced", .policy = DORMANT_POLICY_HOST};
    void *block = NULL;
    OK(allocate(GRANULE, 0, &region, &block));
    return block;
}

/* Nothing is preloaded: two threads open two copies at once. */
static void raced(void) {
    pthread_t threads[2];
    void *blocks[2];
    char *paths[] = {getenv("TEST_LIBRARY"), getenv("COPY")};
    OK(pthread_barrier_init(&both, NULL, 2));
    for (int i = 0; i < 2; i++) {
        OK(pthread_create(&threads[i], NULL, open_and_allocate, paths[i]));
    }
    for (int i = 0; i < 2; i++) OK(pthread_join(threads[i], &blocks[i]));
    for (int i = 0; i < 2; i++) {
        find_dormant_in(open_library(paths[i]));
        SAME(found(blocks[0]).tag, "raced");
        SAME(found(blocks[1]).tag, "raced");
    }
    OK(pause_tag("raced"));
    IS(found(blocks[0]).state, DORMANT_STATE_PAUSED);
    IS(found(blocks[1]).state, DORMANT_STATE_PAUSED);
}

static void is_two_builds(int status) {
    IS(status, DORMANT_STATUS_TWO_BUILDS);
    const char *text = last_text();
    /* Both are named: this one, whose text was changed, and the first. */
    HOLDS(strstr(text, "two builds") && strstr(text, dormant.build()));
    HOLDS(strstr(text, " dormanT") && strstr(text, ", backends "));
}

/* The first one works; the other answers that there are two, and its hooks are the real functions. */
static void two_builds(void) {
    size_t start = free_bytes();
    find_tms();
    enter("w", true);
    void *block = allocate(GRANULE);
    fill(block, 8, GRANULE);
    void *other = open_library(getenv("OTHER_BUILD"));
    find_dormant_in(other);
    DormantRegion region = {.size = sizeof region};
    void *refused;
    is_two_builds(dormant.allocate(GRANULE, 0, &region, &refused));
    is_two_builds(dormant.pause(NULL, 0, NULL, NULL));
    is_two_builds(dormant.resume(NULL, 0, NULL, NULL));
    is_two_builds(dormant.free(block));
    HOLDS(dormant.backend() == NULL);
#ifdef FOR_HIP
    __typeof__(&hipMalloc) hooked = symbol(other, "hipMalloc");
    __typeof__(&hipFree) freed = symbol(other, "hipFree");
#else
    __typeof__(&cudaMalloc) hooked = symbol(other, "cudaMalloc");
    __typeof__(&cudaFree) freed = symbol(other, "cudaFree");
#endif
    long long before = virtual_calls();
    OK(hooked(&refused, GRANULE));
    OK(freed(refused));
    IS(freed(block), INVALID_VALUE);
    IS(virtual_calls(), before);
    OK(tms.pause(NULL));
    IS(free_bytes(), start);
    OK(tms.resume(NULL));
    EXPECT(block, 8, GRANULE);
}

/* The preloaded file found no engine; one that is opened later is found. */
static void late_engine(void) {
    void *block = allocate(GRANULE);
    OK(GPU(Free)(block));
    find_dormant_in(open_library(getenv("LATE")));
    HOLDS(dormant.hooks_bound() != 0);
    uint64_t entered = push("w", DORMANT_POLICY_HOST);
    block = allocate(GRANULE);
    SAME(found(block).tag, "w");
    OK(dormant.region_pop(entered));
    OK(GPU(Free)(block));
}

/* Another build of ours is what the preloaded file found: its hooks do not lead here. */
static void bound_elsewhere(void) {
    void *block = allocate(GRANULE);
    OK(GPU(Free)(block));
    find_dormant_in(open_library(getenv("OTHER")));
    IS(dormant.hooks_bound(), 0);
}

int main(int argc, char **argv) {
    RUN(three_files);
    RUN(global_copy);
    RUN(chained);
    RUN(bound);
    RUN(torch_mode);
    RUN(raced);
    RUN(two_builds);
    RUN(late_engine);
    RUN(bound_elsewhere);
    return NO_SUCH_CASE;
}
