/* Regions, raw switches in them, and leaving early. */
#include <setjmp.h>

#include "gpu.h"
#include "saver.h"

static jmp_buf out;

/* Whether a fresh block is under this tag with this policy; no tag: not ours. */
static void fresh_at(const char *tag, int policy, int line) {
    void *block = allocate(100);
    DormantBlock info = {.size = sizeof info};
    int status = dormant.find(block, &info);
    is(status, tag ? DORMANT_STATUS_OK : DORMANT_STATUS_NOT_FOUND, "found", __FILE__, line);
    if (tag) {
        is(strcmp(info.tag, tag), 0, info.tag, __FILE__, line);
        is(info.policy, policy, "the policy", __FILE__, line);
    }
    OK(GPU(Free)(block));
}

#define FRESH(tag, policy) fresh_at(tag, policy, __LINE__)
#define NOT_OURS() fresh_at(NULL, 0, __LINE__)

static void nothing_to_do(void) {
    enter("a", true);
    void *a = allocate(GRANULE);
    enter("b", true);
    void *b = allocate(GRANULE);
    leave();
    fill(a, 1, GRANULE);
    fill(b, 2, GRANULE);
    OK(tms.pause("a"));
    OK(tms.pause("a"));
    IS(state_of("a"), DORMANT_STATE_PAUSED);
    IS(state_of("b"), DORMANT_STATE_ACTIVE);
    OK(tms.pause(NULL));
    IS(state_of("b"), DORMANT_STATE_PAUSED);
    OK(tms.resume("a"));
    OK(tms.resume("a"));
    OK(tms.resume("no such tag"));
    OK(tms.pause("no such tag"));
    IS(state_of("no such tag"), DORMANT_STATE_NONE);
    IS(state_of("b"), DORMANT_STATE_PAUSED);
    EXPECT(a, 1, GRANULE);
    OK(tms.resume(NULL));
    EXPECT(b, 2, GRANULE);
}

/* As torch_memory_saver's own context managers: each level puts back what it found. */
static void switches_raise(void) {
    enter("a", false);
    if (!setjmp(out)) {
        char tag[64];
        strcpy(tag, tms.get_tag());
        bool backup = tms.get_cpu();
        enter("b", true);
        FRESH("b", DORMANT_POLICY_HOST);
        tms.set_tag(tag);
        tms.set_cpu(backup);
        longjmp(out, 1);
    }
    SAME(tms.get_tag(), "a");
    HOLDS(!tms.get_cpu() && tms.get_region());
    FRESH("a", DORMANT_POLICY_DISCARD);
    leave();
    NOT_OURS();
}

static void regions_raise(void) {
    volatile uint64_t inner = 0;
    uint64_t a = push("a", DORMANT_POLICY_ZERO);
    if (!setjmp(out)) {
        inner = push("b", DORMANT_POLICY_HOST);
        FRESH("b", DORMANT_POLICY_HOST);
        longjmp(out, 1);
    }
    OK(dormant.region_pop(inner));
    FRESH("a", DORMANT_POLICY_ZERO);
    OK(dormant.region_pop(a));
    NOT_OURS();
    IS(dormant.region_pop(a), DORMANT_STATUS_NOT_FOUND);
    IS(dormant.region_pop(0), DORMANT_STATUS_NOT_FOUND);
}

static void *pop(void *entered) {
    IS(dormant.region_pop(*(uint64_t *)entered), DORMANT_STATUS_NOT_FOUND);
    return NULL;
}

static void left_early(void) {
    uint64_t a = push("a", DORMANT_POLICY_HOST);
    if (!setjmp(out)) {
        push("b", DORMANT_POLICY_ZERO);
        push_disabled();
        tms.set_region(true);
        tms.set_tag("raw");
        FRESH("raw", DORMANT_POLICY_ZERO);
        longjmp(out, 1);
    }
    on_a_thread(pop, &a);
    FRESH("raw", DORMANT_POLICY_ZERO);
    OK(dormant.region_pop(a));
    NOT_OURS();
    SAME(tms.get_tag(), "default");
}

/* slime and miles bracket foreign code so, in whatever they are in. */
static void bracket(void) {
    bool previous = tms.get_region();
    tms.set_region(false);
    NOT_OURS();
    tms.set_region(previous);
}

static void switched_inside(void) {
    uint64_t outer = push("outer", DORMANT_POLICY_HOST);
    void *kept = allocate(GRANULE);
    fill(kept, 4, GRANULE);

    uint64_t off = push_disabled();
    NOT_OURS();
    bracket();
    NOT_OURS();
    tms.set_region(false);
    NOT_OURS();
    tms.set_region(true); /* Not what it was; it holds until the level is left. */
    FRESH("outer", DORMANT_POLICY_HOST);
    OK(dormant.region_pop(off));

    uint64_t x = push("x", DORMANT_POLICY_DISCARD);
    bracket();
    FRESH("x", DORMANT_POLICY_DISCARD);
    tms.set_region(false);
    tms.set_tag("y");
    tms.set_cpu(true);
    NOT_OURS();
    tms.set_region(true);
    FRESH("y", DORMANT_POLICY_HOST);
    OK(dormant.region_pop(x));
    x = push("zeroed", DORMANT_POLICY_ZERO);
    tms.set_cpu(false); /* It was not on; zero stays zero. */
    FRESH("zeroed", DORMANT_POLICY_ZERO);
    tms.set_cpu(true);
    FRESH("zeroed", DORMANT_POLICY_HOST);
    OK(dormant.region_pop(x));

    FRESH("outer", DORMANT_POLICY_HOST);
    if (!setjmp(out)) {
        push("x", DORMANT_POLICY_ZERO);
        tms.set_region(false);
        longjmp(out, 1);
    }
    NOT_OURS(); /* Nobody has left the level yet. */
    OK(dormant.region_pop(outer));
    NOT_OURS();
    HOLDS(!tms.get_region());
    SAME(tms.get_tag(), "default");
    OK(tms.pause(NULL));
    IS(state_of("outer"), DORMANT_STATE_PAUSED);
    OK(tms.resume(NULL));
    EXPECT(kept, 4, GRANULE);
}

int main(int argc, char **argv) {
    find_tms();
    find_dormant();
    RUN(nothing_to_do);
    RUN(switches_raise);
    RUN(regions_raise);
    RUN(left_early);
    RUN(switched_inside);
    return NO_SUCH_CASE;
}
