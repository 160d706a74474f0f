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

/* How backups of new memory are held. */
static void *mode(void *with) {
    static const char *const modes[] = {"own", "auto", "retain", "reclaim"};
    DormantRegion region = {.size = sizeof region};
    uint32_t on;
    OK(dormant.region_current(&region, &on));
    printf("retain=%d %s\n", tms.get_retain(), modes[region.host_mode]);
    return with;
}

static void held(void) {
    mode(NULL);
    tms.set_retain(!tms.get_retain());
    mode(NULL);
    on_a_thread(mode, NULL); /* Of the whole process. */
    uint64_t entered = push("region", DORMANT_POLICY_HOST);
    mode(NULL);
    tms.set_disk(true); /* A switch makes it the saver's. */
    mode(NULL);
    tms.set_retain(!tms.get_retain());
    mode(NULL);
    OK(dormant.region_pop(entered));
    mode(NULL);
}

static DormantReport paused(void) {
    DormantReport report = {.size = sizeof report};
    OK(dormant.pause(NULL, 0, NULL, &report));
    return report;
}

/* Memory of the switches goes back after each resume, unless it is to be retained. */
static void retained(void) {
    enter("w", true);
    void *plain = allocate(GRANULE);
    SAME(paused().host_mode, "reclaim");
    IS(stats().host_retained_bytes, 0);
    OK(tms.resume(NULL));
    tms.set_retain(true);
    OK(tms.pause(NULL)); /* Also what was allocated before. */
    HOLDS(stats().host_retained_bytes >= GRANULE);
    OK(tms.resume(NULL));
    OK(GPU(Free)(plain));
    OK(dormant.trim(NULL));
    IS(stats().host_retained_bytes, 0);
    void *kept = allocate(GRANULE);
    void *named = NULL; /* By the same switches. */
    OK(dormant.allocate(GRANULE, 0, NULL, &named));
    leave();
    SAME(paused().host_mode, "retain");
    OK(tms.resume(NULL));
    no_backups_soon();
    HOLDS(stats().host_retained_bytes >= 2 * GRANULE);
    OK(tms.pause(NULL));
    OK(tms.resume(NULL));
    no_backups_soon();
    HOLDS(stats().host_retained_bytes >= 2 * GRANULE);
    tms.set_retain(false);
    HOLDS(stats().host_retained_bytes >= 2 * GRANULE);
    OK(tms.resume(NULL));
    IS(stats().host_retained_bytes, 0);
    OK(tms.pause(NULL)); /* Also what was allocated while it was on. */
    IS(stats().host_retained_bytes, 0);
    OK(tms.resume(NULL));
    OK(GPU(Free)(kept));
    OK(dormant.free(named));
}

static void settings(void) {
    static const char *const modes[] = {"own", "auto", "retain", "reclaim"};
    static const char *const checksums[] = {"own", "off", "full"};
    DormantConfig config = {.size = sizeof config};
    OK(dormant.configuration(&config));
    OK(dormant.configuration(&config)); /* A value that makes no sense is said once. */
    printf("staging=%llu limit=%llu retain=%llu keep=%lld %s %s\n",
           (unsigned long long)config.disk_staging_bytes, (unsigned long long)config.host_limit_bytes,
           (unsigned long long)config.retain_limit_bytes, (long long)config.disk_keep_bytes,
           modes[config.host_mode], checksums[config.checksum]);
}

int main(int argc, char **argv) {
    find_tms();
    find_dormant();
    RUN(threads);
    RUN(no_backup);
    RUN(switches);
    RUN(held);
    RUN(retained);
    RUN(settings);
    return NO_SUCH_CASE;
}
