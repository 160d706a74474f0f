/* How the frameworks call a saver. */
#include <sys/resource.h>
#include <sys/stat.h>

#include "gpu.h"
#include "saver.h"

static void *filled(size_t bytes, int byte) {
    void *block = allocate(bytes);
    fill(block, byte, bytes);
    return block;
}

/* A region of torch_memory_saver's: it puts the switches back. */
static void *within(const char *tag, bool backup, size_t bytes, int byte) {
    char before[64];
    strcpy(before, tms.get_tag());
    bool was_on = tms.get_region(), was_backed = tms.get_cpu();
    enter(tag, backup);
    void *block = filled(bytes, byte);
    tms.set_tag(before);
    tms.set_cpu(was_backed);
    tms.set_region(was_on);
    return block;
}

/* The actor of miles: the process is pausable as a whole, with contents kept; two buffers are not. */
static void actor(void) {
    size_t start = free_bytes();
    HOLDS(tms.get_region() && tms.get_cpu());
    void *kept = filled(4 * MIB, 1);
    void *param = within("param_buffer", false, 4 * MIB, 2);
    void *grad = within("grad_buffer", false, 4 * MIB, 3);
    HOLDS(tms.get_region() && tms.get_cpu());
    SAME(tms.get_tag(), "default");
    for (int round = 0; round < 2; round++) {
        OK(tms.pause("grad_buffer"));
        OK(tms.pause("default"));
        IS(free_bytes(), start - 4 * MIB);
        uint64_t off = push_disabled();
        EXPECT(param, 2 + 2 * round, 4 * MIB);
        void *more = filled(16 * MIB, 9);
        OK(GPU(Free)(more));
        OK(dormant.region_pop(off));
        if (round == 0) OK(tms.pause("param_buffer"));
        OK(tms.resume(NULL));
        IS(free_bytes(), start - 12 * MIB);
        EXPECT(kept, 1, 4 * MIB);
        fill(param, 4, 4 * MIB);
        fill(grad, 5, 4 * MIB);
        EXPECT(param, 4, 4 * MIB);
        EXPECT(grad, 5, 4 * MIB);
    }
    no_backups_soon();
}

/* SGLang: three tags in its order; `cuda_graph` has blocks of both kinds. */
static void server(void) {
    size_t start = free_bytes();
    void *weights = within("weights", true, 4 * MIB, 1);
    void *cache = within("kv_cache", false, 8 * MIB, 2);
    void *backed = within("cuda_graph", true, 2 * MIB, 3);
    void *scratch = within("cuda_graph", false, 2 * MIB, 4);
    void *alone = filled(2 * MIB, 6);
    const char *const down[] = {"kv_cache", "weights", "cuda_graph"};
    for (int i = 0; i < 3; i++) OK(tms.pause(down[i]));
    IS(free_bytes(), start - 2 * MIB);
    HOLDS(tms.backup(backed, 2 * MIB) != NULL);
    HOLDS(tms.backup(scratch, 1) == NULL);
    for (int i = 2; i >= 0; i--) OK(tms.resume(down[i]));
    EXPECT(weights, 1, 4 * MIB);
    EXPECT(backed, 3, 2 * MIB);
    fill(scratch, 7, 2 * MIB);
    fill(cache, 8, 8 * MIB);
    OK(tms.pause("weights"));
    OK(tms.resume("weights"));
    EXPECT(weights, 1, 4 * MIB);
    EXPECT(cache, 8, 8 * MIB);
    OK(tms.pause(NULL));
    OK(tms.resume(NULL));
    EXPECT(weights, 1, 4 * MIB);
    EXPECT(backed, 3, 2 * MIB);
    EXPECT(alone, 6, 2 * MIB);
    IS(found(scratch).policy, DORMANT_POLICY_DISCARD);
    IS(found(backed).policy, DORMANT_POLICY_HOST);
}

/* A rank of miles that keeps its contents on disk, with few files to open, in a folder that is made
 * anew after the blocks. */
static void disk_rank(void) {
    enum { BLOCKS = 200, BYTES = 70000 };
    static void *blocks[BLOCKS];
    DormantRegion region = {.size = sizeof region, .policy = DORMANT_POLICY_DISK, .tag = "probe"};
    uint64_t entered;
    if (dormant.region_push(&region, &entered) != DORMANT_STATUS_OK) {
        puts("skipped: this build keeps nothing on disk");
        return;
    }
    OK(dormant.region_pop(entered));
    struct rlimit few = {64, 64};
    OK(setrlimit(RLIMIT_NOFILE, &few));
    const char *folder = getenv("TMS_DISK_BACKUP_DIR");
    OK(mkdir(folder, 0700));
    HOLDS(tms.get_region() && tms.get_disk() && !tms.get_cpu());
    for (int i = 0; i < BLOCKS; i++) blocks[i] = filled(BYTES, i % 250 + 1);
    OK(rmdir(folder));
    OK(mkdir(folder, 0700));
    for (int round = 0; round < 10; round++) {
        size_t before = free_bytes();
        OK(tms.pause(NULL));
        HOLDS(free_bytes() > before);
        IS(stats().host_backup_bytes, 0);
        HOLDS(stats().disk_backup_bytes >= (uint64_t)BLOCKS * BYTES);
        OK(tms.resume(NULL));
        IS(free_bytes(), before);
        for (int i = 0; i < BLOCKS; i += 7) EXPECT(blocks[i], i % 250 + 1, BYTES);
    }
    OK(rmdir(folder)); /* Empty. */
}

int main(int argc, char **argv) {
    find_tms();
    find_dormant();
    RUN(actor);
    RUN(server);
    RUN(disk_rank);
    return NO_SUCH_CASE;
}
