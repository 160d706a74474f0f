/* What the environment says, as threads have it. */
#include "gpu.h"
#include "saver.h"

static const char *const policies[] = {"discard", "zero", "host", "disk"};

/* What holds on this thread, and what memory gets that is allocated on it. */
static void *show(void *with) {
    (void)with;
    DormantRegion region = {.size = sizeof region};
    uint32_t on;
    printf("%s %s cpu=%d %s disk=%d retain=%d", tms.get_region() ? "on" : "off", tms.get_tag(),
           tms.get_cpu(), tms.get_backend(), tms.get_disk(), tms.get_retain());
    OK(dormant.region_current(&region, &on));
    IS(on, tms.get_region());
    SAME(region.tag, tms.get_tag());
    printf(" directory=%s", region.disk_directory ? region.disk_directory : "none");
    void *block = allocate(GRANULE);
    DormantBlock info = {.size = sizeof info};
    if (dormant.find(block, &info) == DORMANT_STATUS_OK) {
        printf(" block=%s,%s\n", info.tag, policies[info.policy]);
    } else {
        puts(" block=foreign");
    }
    OK(GPU(Free)(block));
    return NULL;
}

static void threads(void) {
    show(NULL);
    on_a_thread(show, NULL);
    /* What one thread says is its own. */
    tms.set_tag("mine");
    tms.set_region(!tms.get_region());
    on_a_thread(show, NULL);
}

/* An explicit no is a no, whatever the environment asks for. */
static void no_backup(void) {
    tms.set_cpu(false);
    show(NULL);
    tms.set_cpu(true);
    uint64_t entered = push("region", DORMANT_POLICY_DISCARD);
    show(NULL);
    tms.set_cpu(true);
    show(NULL);
    OK(dormant.region_pop(entered));
    show(NULL);
}

/* Settings of raw switches, by themselves. */
static void switches(void) {
    tms.set_backend("mmap");
    tms.set_retain(true);
    tms.set_directory("/somewhere");
    tms.set_cpu(true);
    tms.set_disk(true); /* Wins over host memory. */
    tms.set_region(true);
    show(NULL);
    tms.set_disk(false);
    tms.set_directory(NULL);
    tms.set_backend("pinned");
    tms.set_tag(NULL);
    tms.set_cpu(false);
    show(NULL);
}

static void staging(void) {
    DormantConfig config = {.size = sizeof config};
    OK(dormant.configuration(&config));
    printf("staging=%llu\n", (unsigned long long)config.disk_staging_bytes);
}

int main(int argc, char **argv) {
    find_tms();
    find_dormant();
    RUN(threads);
    RUN(no_backup);
    RUN(switches);
    RUN(staging);
    return NO_SUCH_CASE;
}
