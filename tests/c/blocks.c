/* Blocks: sizes, frees from elsewhere, and what is not ours. */
#include "gpu.h"
#include "saver.h"

static void sizes(void) {
    static const size_t sizes[] = {1, 128, 6912, GRANULE - 1, GRANULE, GRANULE + 1, 3 << 20};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    char *blocks[COUNT];
    size_t start = free_bytes();
    enter("sized", true);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = allocate(sizes[i]);
        fill(blocks[i], i + 1, 1);
        fill(blocks[i] + sizes[i] - 1, i + 1, 1);
    }
    void *nothing = &start;
    OK(GPU(Malloc)(&nothing, 0));
    HOLDS(nothing == NULL);
    leave();
    HOLDS(free_bytes() < start);
    OK(tms.pause("sized"));
    IS(free_bytes(), start);
    for (int i = 0; i < COUNT; i++) {
        const unsigned char *saved = tms.backup(blocks[i], sizes[i]);
        HOLDS(saved && saved[0] == i + 1 && saved[sizes[i] - 1] == i + 1);
    }
    OK(tms.resume("sized"));
    for (int i = 0; i < COUNT; i++) {
        EXPECT(blocks[i], i + 1, 1);
        EXPECT(blocks[i] + sizes[i] - 1, i + 1, 1);
        OK(GPU(Free)(blocks[i]));
    }
    OK(GPU(Free)(NULL));
    IS(free_bytes(), start);
}

static void *free_it(void *block) {
    HOLDS(!tms.get_region());
    OK(GPU(Free)(block));
    return NULL;
}

static void freed_elsewhere(void) {
    size_t start = free_bytes();
    enter("mine", true);
    void *active = allocate(3 << 20), *paused = allocate(GRANULE);
    leave();
    on_a_thread(free_it, active);
    IS(free_bytes(), start - GRANULE);
    OK(tms.pause("mine"));
    IS(free_bytes(), start);
    on_a_thread(free_it, paused);
    OK(tms.resume(NULL));
    IS(free_bytes(), start);
}

static void outside(void) {
    size_t start = free_bytes();
    void *block = allocate(3 << 20);
    fill(block, 7, 3 << 20);
    EXPECT(block, 7, 3 << 20);
    OK(GPU(Free)(NULL));
    OK(GPU(Free)(block));
    IS(GPU(Free)(block), INVALID_VALUE);
    IS(GPU(GetLastError)(), INVALID_VALUE);
    IS(GPU(Free)(&start), INVALID_VALUE);
    IS(GPU(Malloc)(NULL, GRANULE), INVALID_VALUE);
    IS(GPU(GetLastError)(), INVALID_VALUE);
    void *nothing = &start;
    OK(GPU(Malloc)(&nothing, 0));
    HOLDS(nothing == NULL);
    OK(tms.pause(NULL));
    OK(tms.resume(NULL));
    IS(virtual_calls(), 0);
    IS(free_bytes(), start);
}

/* Inside a region too a block that is not ours goes to the runtime, and a bad call gets its answer. */
static void inside(void) {
    void *foreign = allocate(GRANULE);
    enter("mine", false);
    IS(GPU(Malloc)(NULL, GRANULE), INVALID_VALUE);
    IS(GPU(GetLastError)(), INVALID_VALUE);
    OK(GPU(Free)(NULL));
    OK(GPU(Free)(foreign));
    IS(GPU(Free)(foreign), INVALID_VALUE);
    IS(virtual_calls(), 0);
    char *block = allocate(2 * GRANULE);
    HOLDS(virtual_calls() > 0);
    IS(GPU(Free)(block + GRANULE), INVALID_VALUE);
    OK(GPU(Free)(block));
    IS(GPU(GetLastError)(), INVALID_VALUE);
    OK(GPU(GetLastError)());
    IS(GPU(Free)(block), INVALID_VALUE);
}

static void freed_while_paused(void) {
    size_t start = free_bytes();
    enter("asleep", true);
    void *block = allocate(3 << 20), *other = allocate(GRANULE);
    leave();
    fill(other, 9, GRANULE);
    OK(tms.pause("asleep"));
    OK(GPU(Free)(block));
    IS(GPU(Free)(block), INVALID_VALUE);
    IS(GPU(GetLastError)(), INVALID_VALUE);
    OK(tms.resume("asleep"));
    IS(free_bytes(), start - GRANULE);
    IS(GPU(Free)(block), INVALID_VALUE);
    EXPECT(other, 9, GRANULE);
    OK(GPU(Free)(other));
    IS(free_bytes(), start);
}

/* Memory that is paused is not there: the runtime says so, and the process lives. */
static void used_while_paused(void) {
    char byte;
    enter("asleep", true);
    void *block = allocate(GRANULE);
    fill(block, 5, GRANULE);
    OK(tms.pause("asleep"));
    IS(GPU(Memset)(block, 1, GRANULE), INVALID_VALUE);
    IS(GPU(Memcpy)(&byte, block, 1, TO_HOST), INVALID_VALUE);
    void *more = allocate(GRANULE); /* Under a tag that sleeps: active. */
    fill(more, 6, GRANULE);
    OK(tms.resume("asleep"));
    EXPECT(block, 5, GRANULE);
    EXPECT(more, 6, GRANULE);
}

/* The stand-in has one process, so it has no handle for memory of its own; told to act like some
 * runtimes it has a bogus one for memory like ours. */
static void shared(void) {
    enum { NOT_SUPPORTED = 801 };
    char handle[64];
    void *foreign = allocate(GRANULE);
    IS(GPU(IpcGetMemHandle)(handle, foreign), NOT_SUPPORTED);
    enter("mine", false);
    char *block = allocate(2 * GRANULE);
    leave();
    for (int i = 0; i < 2; i++) {
        IS(GPU(IpcGetMemHandle)(handle, block + i * GRANULE), INVALID_VALUE);
        IS(GPU(GetLastError)(), INVALID_VALUE);
        if (i == 0) OK(tms.pause("mine"));
    }
    IS(GPU(IpcGetMemHandle)(handle, foreign), NOT_SUPPORTED);
}

/* Bare pointers to contents on disk: several tensors of one block, over several sleeps. */
static void pointers_to_the_disk(void) {
    size_t start = free_bytes();
    enter("w", false);
    tms.set_disk(true);
    unsigned char *block = allocate(2 * GRANULE);
    for (int sleep = 1; sleep < 4; sleep++) {
        fill(block, sleep, 2 * GRANULE);
        OK(tms.pause("w"));
        const unsigned char *first = tms.backup(block, GRANULE);
        const unsigned char *second = tms.backup(block + GRANULE, GRANULE);
        HOLDS(first && second == first + GRANULE); /* Read once. */
        HOLDS(tms.backup(block + GRANULE, GRANULE + 1) == NULL);
        OK(tms.pause(NULL)); /* Another transition ends no loan. */
        const unsigned char *third = tms.backup(block, 2 * GRANULE);
        IS(first[0], sleep);
        IS(second[GRANULE - 1], sleep);
        IS(third[2 * GRANULE - 1], sleep);
        OK(tms.resume("w"));
        HOLDS(tms.backup(block, 1) == NULL);
    }
    OK(GPU(Free)(block));
    IS(free_bytes(), start);
}

static void free_a_block(const DormantBlock *block, void *user) {
    (void)user;
    OK(GPU(Free)(block->address)); /* As a garbage collector does. */
}

static void freed_in_a_callback(void) {
    size_t start = free_bytes();
    enter("w", true);
    for (int i = 0; i < 20; i++) allocate(GRANULE);
    OK(tms.pause("w"));
    allocate(GRANULE);
    OK(dormant.blocks(free_a_block, NULL));
    IS(state_of("w"), DORMANT_STATE_NONE);
    IS(free_bytes(), start);
}

int main(int argc, char **argv) {
    find_tms();
    RUN(sizes);
    RUN(freed_elsewhere);
    RUN(outside);
    RUN(inside);
    RUN(freed_while_paused);
    RUN(used_while_paused);
    RUN(shared);
    RUN(pointers_to_the_disk);
    find_dormant();
    RUN(freed_in_a_callback);
    return NO_SUCH_CASE;
}
