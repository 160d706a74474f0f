/* Access of one device to another's blocks follows the program's own calls. */
#include "gpu.h"
#include "saver.h"

enum { NONE = 0, BOTH = 3 };
enum { INVALID_DEVICE = 101, ALREADY_ENABLED = 704, NOT_ENABLED = 705 };

/* What a device may do with a block that is in use. */
static long long access_of(int device, const void *block) {
#ifdef FOR_HIP
    int (*get)(uint64_t *, const int *, const void *) = driver("hipMemGetAccess");
#else
    int (*get)(uint64_t *, const int *, const void *) = driver("cuMemGetAccess");
#endif
    const int location[] = {1, device};
    uint64_t flags = 77;
    OK(get(&flags, location, block));
    return (long long)flags;
}

static int enable(int peer, int owner) {
    OK(GPU(SetDevice)(peer));
    int code = GPU(DeviceEnablePeerAccess)(owner, 0);
    OK(GPU(SetDevice)(0));
    return code;
}

static int disable(int peer, int owner) {
    OK(GPU(SetDevice)(peer));
    int code = GPU(DeviceDisablePeerAccess)(owner);
    OK(GPU(SetDevice)(0));
    return code;
}

static void before_and_after_allocation(void) {
    enter("w", true);
    void *before = allocate(GRANULE);
    tms.set_tag("asleep");
    void *asleep = allocate(GRANULE);
    OK(tms.pause("asleep"));
    IS(access_of(1, before), NONE);
    OK(enable(1, 0));
    tms.set_tag("w");
    void *after = allocate(GRANULE);
    OK(tms.resume(NULL));
    void *blocks[] = {before, asleep, after};
    for (int i = 0; i < 3; i++) {
        IS(access_of(0, blocks[i]), BOTH);
        IS(access_of(1, blocks[i]), BOTH);
        IS(access_of(2, blocks[i]), NONE);
    }
    OK(tms.pause(NULL));
    OK(tms.resume(NULL));
    IS(access_of(1, before), BOTH);
    OK(tms.pause("asleep"));
    OK(disable(1, 0));
    OK(tms.resume(NULL));
    for (int i = 0; i < 3; i++) IS(access_of(1, blocks[i]), NONE);
    void *later = allocate(GRANULE);
    IS(access_of(1, later), NONE);
}

static void before_the_engine(void) {
    OK(enable(1, 0));
    OK(enable(2, 0));
    OK(disable(2, 0));
    OK(enable(2, 1));
    enter("w", true);
    void *block = allocate(GRANULE);
    IS(access_of(1, block), BOTH);
    IS(access_of(2, block), NONE);
    OK(GPU(SetDevice)(1));
    void *other = allocate(GRANULE);
    OK(GPU(SetDevice)(0));
    IS(access_of(0, other), NONE);
    IS(access_of(2, other), BOTH);
    OK(disable(1, 0));
    IS(access_of(1, block), NONE);
}

/* What the runtime refuses changes nothing, and its answers are its own. */
static void refusals(void) {
    enter("w", true);
    void *block = allocate(GRANULE);
    IS(disable(1, 0), NOT_ENABLED);
    IS(enable(1, 1), INVALID_DEVICE);
    IS(enable(1, 9), INVALID_DEVICE);
    HOLDS(enable(1, -1) != 0);
    IS(access_of(1, block), NONE);
    OK(enable(1, 0));
    IS(enable(1, 0), ALREADY_ENABLED);
    IS(access_of(1, block), BOTH);
    OK(disable(1, 0));
    IS(disable(1, 0), NOT_ENABLED);
    IS(access_of(1, block), NONE);
    OK(enable(1, 0));
    IS(access_of(1, block), BOTH);
}

/* A region that names the peer itself. */
static void named_by_the_region(void) {
    find_dormant();
    const uint32_t peers[] = {2};
    DormantRegion region = {.size = sizeof region, .tag = "w", .peers = peers, .peer_count = 1};
    uint64_t entered;
    OK(dormant.region_push(&region, &entered));
    void *block = allocate(GRANULE);
    IS(access_of(1, block), NONE);
    IS(access_of(2, block), BOTH);
    OK(enable(2, 0));
    OK(disable(2, 0));
    IS(access_of(2, block), BOTH);
    OK(dormant.enable_peer_access(1, 0));
    IS(access_of(1, block), BOTH);
    OK(dormant.disable_peer_access(1, 0));
    IS(access_of(1, block), NONE);
    IS(dormant.enable_peer_access(9, 0), DORMANT_STATUS_NOT_FOUND);
    OK(dormant.region_pop(entered));
}

int main(int argc, char **argv) {
    find_tms();
    RUN(before_and_after_allocation);
    RUN(before_the_engine);
    RUN(refusals);
    RUN(named_by_the_region);
    return NO_SUCH_CASE;
}
