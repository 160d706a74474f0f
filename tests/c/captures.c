/* Stream captures: what is refused, what is put off, and what ends one. */
#include "gpu.h"
#include "saver.h"

enum { GLOBAL = 0, RELAXED = 2 };
enum { INVALIDATED = 901, UNSUPPORTED = 900, WRONG_THREAD = 908 };

#ifdef PER_THREAD
#ifdef FOR_HIP
#define BEGIN hipStreamBeginCapture_spt
#define END hipStreamEndCapture_spt
#else
#define BEGIN cudaStreamBeginCapture_ptsz
#define END cudaStreamEndCapture_ptsz
#endif
int BEGIN(void *, int);
int END(void *, void **);
#else
#define BEGIN GPU(StreamBeginCapture)
#define END GPU(StreamEndCapture)
#endif

static void *stream(void) {
    void *stream;
    OK(GPU(StreamCreate)(&stream));
    return stream;
}

static void ended_well(void *stream) {
    void *graph = NULL;
    OK(END(stream, &graph));
    HOLDS(graph != NULL);
    OK(GPU(GraphDestroy)(graph));
}

static void refuses_pauses(void) {
    void *one = stream();
    enter("w", true);
    void *block = allocate(GRANULE);
    fill(block, 3, GRANULE);
    OK(BEGIN(one, GLOBAL));
    size_t before = free_bytes();
    IS(tms.pause(NULL), DORMANT_STATUS_BUSY);
    IS(free_bytes(), before);
    void *more = allocate(GRANULE); /* Allocations go on, and break nothing. */
    ended_well(one);
    fill(more, 4, GRANULE);
    OK(tms.pause(NULL));
    OK(BEGIN(one, GLOBAL));
    OK(tms.resume(NULL)); /* So do resumes. */
    ended_well(one);
    EXPECT(block, 3, GRANULE);
    EXPECT(more, 4, GRANULE);
}

static void puts_frees_off(void) {
    void *one = stream(), *other = stream();
    enter("w", true);
    void *active = allocate(GRANULE), *asleep = allocate(GRANULE);
    tms.set_tag("x");
    void *stays = allocate(GRANULE);
    OK(tms.pause("w"));
    void *foreign = stays;
    leave();
    size_t before = free_bytes();
    OK(BEGIN(one, GLOBAL));
    OK(BEGIN(other, RELAXED));
    OK(GPU(Free)(asleep)); /* At once: nothing waits for a device. */
    OK(GPU(Free)(foreign));
    IS(stats().deferred_frees, 1);
    IS(free_bytes(), before);
    ended_well(one);
    IS(stats().deferred_frees, 1);
    ended_well(other);
    IS(stats().deferred_frees, 0);
    IS(free_bytes(), before + GRANULE);
    OK(tms.resume(NULL));
    OK(GPU(Free)(active));
    IS(stats().failed_frees, 0);
}

static void failed_beginning(void) {
    void *one = stream();
    enter("w", true);
    allocate(GRANULE);
    HOLDS(BEGIN(NULL, GLOBAL) != 0);
    HOLDS(BEGIN(one, 77) != 0);
    OK(BEGIN(one, GLOBAL));
    HOLDS(BEGIN(one, GLOBAL) != 0);
    IS(tms.pause(NULL), DORMANT_STATUS_BUSY);
    ended_well(one);
    OK(tms.pause(NULL));
}

static void broken(void) {
    void *one = stream(), *graph = &graph;
    enter("w", true);
    allocate(GRANULE);
    OK(BEGIN(one, GLOBAL));
    IS(GPU(DeviceSynchronize)(), UNSUPPORTED);
    IS(tms.pause(NULL), DORMANT_STATUS_BUSY);
    IS(END(one, &graph), INVALIDATED);
    HOLDS(graph == NULL);
    OK(tms.pause(NULL));
    OK(tms.resume(NULL));
    HOLDS(END(one, &graph) != 0); /* Of nothing. */
    OK(BEGIN(one, GLOBAL));
    HOLDS(END(stream(), &graph) != 0);
    IS(tms.pause(NULL), DORMANT_STATUS_BUSY);
    ended_well(one);
    OK(tms.pause(NULL));
}

/* An end that is refused without ending. */
static void goes_on(void) {
    void *one = stream();
    enter("w", true);
    allocate(GRANULE);
    OK(BEGIN(one, GLOBAL));
    IS(END(one, NULL), INVALID_VALUE);
    int status;
    OK(GPU(StreamIsCapturing)(one, &status));
    IS(status, 1);
    IS(tms.pause(NULL), DORMANT_STATUS_BUSY);
    ended_well(one);
    OK(tms.pause(NULL));
}

static void *end_elsewhere(void *stream) {
    void *graph;
    IS(END(stream, &graph), WRONG_THREAD);
    IS(tms.pause(NULL), DORMANT_STATUS_BUSY);
    return NULL;
}

static void of_another_thread(void) {
    void *one = stream();
    enter("w", true);
    allocate(GRANULE);
    OK(BEGIN(one, GLOBAL));
    on_a_thread(end_elsewhere, one);
    ended_well(one);
    OK(tms.pause(NULL));
}

static void before_the_engine(void) {
    void *one = stream(), *other = stream();
    OK(BEGIN(other, GLOBAL));
    ended_well(other);
    OK(BEGIN(one, GLOBAL));
    enter("w", true);
    void *block = allocate(GRANULE), *freed = allocate(GRANULE);
    IS(tms.pause(NULL), DORMANT_STATUS_BUSY);
    OK(GPU(Free)(freed));
    IS(stats().deferred_frees, 1);
    ended_well(one);
    IS(stats().deferred_frees, 0);
    OK(tms.pause(NULL));
    OK(tms.resume(NULL));
    OK(GPU(Free)(block));
}

static void into_a_graph(void) {
    void *one = stream(), *graph, *captured;
    OK(GPU(GraphCreate)(&graph, 0));
    enter("w", true);
    allocate(GRANULE);
    HOLDS(GPU(StreamBeginCaptureToGraph)(one, one, NULL, NULL, 0, GLOBAL) != 0);
    OK(tms.pause(NULL));
    OK(tms.resume(NULL));
    HOLDS(GPU(StreamBeginCaptureToGraph)(one, graph, NULL, NULL, 3, GLOBAL) != 0);
    OK(GPU(StreamBeginCaptureToGraph)(one, graph, NULL, NULL, 0, RELAXED));
    IS(tms.pause(NULL), DORMANT_STATUS_BUSY);
    OK(END(one, &captured));
    HOLDS(captured == graph);
    OK(tms.pause(NULL));
}

int main(int argc, char **argv) {
    find_tms();
    find_dormant();
    RUN(refuses_pauses);
    RUN(puts_frees_off);
    RUN(failed_beginning);
    RUN(broken);
    RUN(goes_on);
    RUN(of_another_thread);
    RUN(before_the_engine);
    RUN(into_a_graph);
    return NO_SUCH_CASE;
}
