/* The C interface by itself: host memory that is retained or goes back, plans, checksums, notices. */
#include "saver.h"

enum { GRANULE = 2 << 20 };

static const char *const weights[] = {"w"};

static DormantRegion as(int host_mode, int checksum) {
    DormantRegion region = {.size = sizeof region, .policy = DORMANT_POLICY_HOST, .tag = "w",
                            .host_mode = host_mode, .checksum = checksum};
    return region;
}

static unsigned char *block_as(DormantRegion region, size_t bytes) {
    void *block = NULL;
    OK(dormant.allocate(bytes, 0, &region, &block));
    memset(block, 7, bytes);
    return block;
}

static DormantReport paused(void) {
    DormantReport report = {.size = sizeof report};
    OK(dormant.pause(NULL, 0, NULL, &report));
    return report;
}

static void retained(void) {
    uint64_t bytes = 1;
    OK(dormant.trim(&bytes)); /* Before the first use. */
    IS(bytes, 0);
    SAME(paused().host_mode, "none");
    unsigned char *block = block_as(as(DORMANT_HOST_MODE_RECLAIM, 0), 3 * GRANULE);
    DormantReport report = paused();
    SAME(report.host_mode, "reclaim");
    SAME(report.host_mode_reason, "asked");
    IS(stats().host_retained_bytes, 0);
    OK(dormant.resume(NULL, 0, NULL, NULL));
    OK(dormant.free(block));
    block = block_as(as(DORMANT_HOST_MODE_RETAIN, 0), 3 * GRANULE);
    report = paused();
    SAME(report.host_mode, "retain");
    SAME(report.host_mode_reason, "asked");
    uint64_t kept = stats().host_retained_bytes;
    HOLDS(kept >= 3 * GRANULE);
    OK(dormant.trim(&bytes));
    IS(bytes, 0); /* A backup is in it. */
    OK(dormant.resume(NULL, 0, NULL, &report));
    SAME(report.host_mode, "retain");
    SAME(report.host_mode_reason, "");
    no_backups_soon();
    IS(stats().host_retained_bytes, kept);
    paused();
    IS(stats().host_retained_bytes, kept);
    OK(dormant.resume(NULL, 0, NULL, NULL));
    IS(block[3 * GRANULE - 1], 7);
    OK(dormant.trim(&bytes));
    IS(bytes, kept);
    IS(stats().host_retained_bytes, 0);
    report = paused();
    IS(report.notices & DORMANT_NOTICE_REGISTRATION_REFUSED, 0);
}

/* What region says which mode, as it is and on another thread. */
static void *shows(void *mode) {
    DormantRegion now = {.size = sizeof now};
    uint32_t on;
    OK(dormant.region_current(&now, &on));
    IS(now.host_mode, *(int *)mode);
    IS(now.checksum, DORMANT_CHECKSUM_FULL);
    return mode;
}

static void *carries(void *carried) {
    uint64_t entered;
    int mode = DORMANT_HOST_MODE_RETAIN;
    OK(dormant.carried_push(carried, &entered));
    return shows(&mode) ? NULL : carried;
}

static void regions(void) {
    DormantCarried *carried;
    uint64_t entered;
    uint32_t slot, other;
    for (int mode = DORMANT_HOST_MODE_OWN; mode <= DORMANT_HOST_MODE_RECLAIM; mode++) {
        DormantRegion region = as(mode, DORMANT_CHECKSUM_FULL);
        OK(dormant.region_push(&region, &entered));
        shows(&mode);
        if (mode == DORMANT_HOST_MODE_RETAIN) OK(dormant.region_carry(&carried));
        OK(dormant.torch_slot(&region, &slot));
        IS(slot, mode);
        OK(dormant.region_pop(entered));
    }
    on_a_thread(carries, carried);
    dormant.carried_free(carried);
    DormantRegion region = as(DORMANT_HOST_MODE_OWN, DORMANT_CHECKSUM_OFF);
    OK(dormant.torch_slot(&region, &other));
    IS(other, 4);
}

static void prepared(void) {
    DormantPrepared prepared = {.size = sizeof prepared};
    OK(dormant.prepare(NULL, 0, NULL, &prepared));
    IS(prepared.bytes, 0);
    IS(prepared.registered, 1);
    unsigned char *block = block_as(as(DORMANT_HOST_MODE_RETAIN, 0), 3 * GRANULE);
    block_as(as(DORMANT_HOST_MODE_RECLAIM, 0), GRANULE);
    OK(dormant.prepare(weights, 1, NULL, &prepared));
    IS(prepared.bytes, 3 * GRANULE);
    IS(prepared.registered, 1);
    uint64_t kept = stats().host_retained_bytes;
    HOLDS(kept >= 3 * GRANULE);
    IS(stats().host_backup_bytes, 0);
    DormantPlan plan = {.size = sizeof plan};
    OK(dormant.plan(weights, 1, NULL, &plan));
    IS(plan.host_wanted_bytes, GRANULE);
    DormantReport report = paused();
    SAME(report.host_mode, "mixed");
    IS(report.staging_registered, 1);
    IS(stats().host_retained_bytes, kept);
    OK(dormant.resume(NULL, 0, NULL, NULL));
    IS(*block, 7);
    OK(dormant.trim(NULL));
    DormantPrepareOptions options = {.size = sizeof options, .background = 1};
    OK(dormant.prepare(weights, 1, &options, &prepared));
    IS(prepared.bytes, 3 * GRANULE);
    IS(prepared.registered, 0);
    SAME(paused().host_mode, "mixed");
}

/* For a pause that says itself how memory is held. */
static void prepared_otherwise(void) {
    block_as(as(DORMANT_HOST_MODE_RETAIN, 0), 3 * GRANULE);
    block_as(as(DORMANT_HOST_MODE_RECLAIM, 0), GRANULE);
    DormantPrepareOptions options = {.size = sizeof options, .host_mode = DORMANT_HOST_MODE_RECLAIM};
    DormantPrepared prepared = {.size = sizeof prepared};
    OK(dormant.prepare(weights, 1, &options, &prepared));
    IS(prepared.bytes, 0);
    IS(stats().host_retained_bytes, 0);
    options.host_mode = DORMANT_HOST_MODE_RETAIN;
    OK(dormant.prepare(weights, 1, &options, &prepared));
    IS(prepared.bytes, 4 * GRANULE);
    IS(prepared.registered, 1);
    uint64_t kept = stats().host_retained_bytes;
    DormantPauseOptions how = {.size = sizeof how, .policy = DORMANT_POLICY_OWN, .timeout_ms = -1,
                               .host_mode = DORMANT_HOST_MODE_RETAIN};
    DormantPlan plan = {.size = sizeof plan};
    OK(dormant.plan(weights, 1, &how, &plan));
    IS(plan.host_wanted_bytes, 0);
    DormantReport report = {.size = sizeof report};
    OK(dormant.pause(weights, 1, &how, &report));
    SAME(report.host_mode, "retain");
    IS(stats().host_retained_bytes, kept);
    OK(dormant.resume(NULL, 0, NULL, NULL));
    how.host_mode = DORMANT_HOST_MODE_RECLAIM;
    OK(dormant.pause(weights, 1, &how, &report));
    SAME(report.host_mode, "reclaim");
    OK(dormant.resume(NULL, 0, NULL, NULL));
    options.host_mode = 99;
    IS(dormant.prepare(weights, 1, &options, &prepared), DORMANT_STATUS_INVALID_ARGUMENT);
    options = (DormantPrepareOptions){.size = 8, .host_mode = 99}; /* Of an older header. */
    OK(dormant.prepare(weights, 1, &options, NULL));
}

static void no_disk_backups_soon(void) {
    for (int i = 0; stats().disk_backup_bytes && i < 10000; i++) usleep(1000);
    IS(stats().disk_backup_bytes, 0);
}

/* Disk space stays for the next pause until it is trimmed, as far as the setting says. */
static void on_disk(void) {
    for (int i = 0; i < 2; i++) {
        OK(dormant.resume(NULL, 0, NULL, NULL));
        no_disk_backups_soon();
        OK(dormant.pause(NULL, 0, NULL, NULL));
        IS(stats().disk_backup_bytes, 3 * GRANULE);
        IS(stats().disk_file_bytes, 3 * GRANULE);
    }
    OK(dormant.trim(NULL));
    IS(stats().disk_file_bytes, 3 * GRANULE); /* Contents are in it. */
    OK(dormant.resume(NULL, 0, NULL, NULL));
    no_disk_backups_soon();
}

static void *disk_block(void) {
    DormantRegion region = {.size = sizeof region, .policy = DORMANT_POLICY_DISK, .tag = "d"};
    return block_as(region, 3 * GRANULE);
}

static void disk_kept(void) {
    DormantConfig config = {.size = sizeof config};
    OK(dormant.configuration(&config));
    IS(config.disk_keep_bytes, UINT64_MAX);
    void *block = disk_block();
    on_disk();
    IS(stats().disk_file_bytes, 3 * GRANULE);
    uint64_t bytes = 1;
    OK(dormant.trim(&bytes));
    IS(bytes, 0); /* No host memory. */
    IS(stats().disk_file_bytes, 0);
    paused();
    OK(dormant.free(block));
    OK(dormant.trim(NULL));
    IS(stats().disk_file_bytes, 0);
}

static void disk_given_back(void) {
    DormantConfig config = {.size = sizeof config};
    OK(dormant.configuration(&config));
    config.disk_keep_bytes = 0;
    OK(dormant.configure(&config));
    disk_block();
    on_disk();
    IS(stats().disk_file_bytes, 0);
}

static void planned(void) {
    DormantPlan plan = {.size = sizeof plan};
    DormantConfig config = {.size = sizeof config};
    OK(dormant.plan(NULL, 0, NULL, &plan));
    IS(plan.freed.blocks, 0);
    IS(plan.host_allowed_bytes, UINT64_MAX);
    OK(dormant.configuration(&config));
    config.host_limit_bytes = 4 * GRANULE;
    OK(dormant.configure(&config));
    block_as(as(DORMANT_HOST_MODE_RECLAIM, 0), GRANULE + 1);
    DormantRegion other = {.size = sizeof other, .policy = DORMANT_POLICY_DISK, .tag = "d"};
    block_as(other, 100);
    other.policy = DORMANT_POLICY_DISCARD;
    block_as(other, 3 * GRANULE);
    OK(dormant.plan(NULL, 0, NULL, &plan));
    IS(plan.freed.blocks, 3);
    IS(plan.freed.bytes, 6 * GRANULE);
    IS(plan.host.blocks, 1);
    IS(plan.host.bytes, GRANULE + 1);
    IS(plan.disk.blocks, 1);
    IS(plan.disk.bytes, 100);
    HOLDS(plan.host_wanted_bytes > GRANULE && plan.host_wanted_bytes < 2 * GRANULE);
    IS(plan.host_allowed_bytes, 4 * GRANULE);
    IS(plan.host_short_bytes, 0);
    DormantPauseOptions all = {.size = sizeof all, .policy = DORMANT_POLICY_HOST, .timeout_ms = -1};
    OK(dormant.plan(NULL, 0, &all, &plan));
    IS(plan.host.blocks, 3);
    IS(plan.host_short_bytes, plan.host_wanted_bytes - 4 * GRANULE);
    HOLDS(plan.host_short_bytes > 0);
    IS(dormant.pause(NULL, 0, &all, NULL), DORMANT_STATUS_HOST_MEMORY);
    OK(dormant.plan(weights, 1, NULL, &plan));
    IS(plan.freed.blocks, 1);
    paused();
    OK(dormant.plan(NULL, 0, NULL, &plan));
    IS(plan.freed.blocks, 0);
    HOLDS(plan.host_allowed_bytes < 4 * GRANULE);
}

/* Flips a bit in the middle of what was saved of a block. */
static void flip(const void *block) {
    DormantBackup *lease;
    const void *bytes;
    size_t length;
    OK(dormant.backup(block, &lease, &bytes, &length));
    ((unsigned char *)bytes)[length / 2] ^= 16;
    dormant.backup_release(lease);
}

static void changed(const void *block) {
    flip(block);
    DormantError error = {.size = sizeof error};
    IS(dormant.resume(NULL, 0, NULL, NULL), DORMANT_STATUS_CHECKSUM_MISMATCH);
    OK(dormant.last_error(&error));
    IS(error.status, DORMANT_STATUS_CHECKSUM_MISMATCH);
    SAME(error.kind, "checksum_mismatch");
    IS(found(block).state, DORMANT_STATE_PAUSED);
    flip(block);
    OK(dormant.resume(NULL, 0, NULL, NULL));
}

static void checked(void) {
    for (int mode = DORMANT_HOST_MODE_AUTO; mode <= DORMANT_HOST_MODE_RECLAIM; mode++) {
        unsigned char *block = block_as(as(mode, DORMANT_CHECKSUM_FULL), 3 * GRANULE + 5);
        paused();
        changed(block);
        for (int i = 0; i < 3 * GRANULE + 5; i++) IS(block[i], 7);
        /* A pause may say otherwise. */
        DormantPauseOptions options = {.size = sizeof options, .policy = DORMANT_POLICY_OWN,
                                       .timeout_ms = -1, .checksum = DORMANT_CHECKSUM_OFF};
        OK(dormant.pause(NULL, 0, &options, NULL));
        flip(block);
        OK(dormant.resume(NULL, 0, NULL, NULL));
        IS(block[(3 * GRANULE + 5) / 2], 7 ^ 16);
        OK(dormant.free(block));
        block = block_as(as(mode, DORMANT_CHECKSUM_OWN), GRANULE);
        options.checksum = DORMANT_CHECKSUM_FULL;
        OK(dormant.pause(NULL, 0, &options, NULL));
        changed(block);
        OK(dormant.free(block));
    }
}

static void noticed(void) {
    DormantRegion region = {.size = sizeof region, .policy = DORMANT_POLICY_DISK, .tag = "d",
                            .disk_directory = "/dev/shm"};
    block_as(region, GRANULE);
    IS(paused().notices, DORMANT_NOTICE_DISK_IN_MEMORY);
    SAME(dormant.notice_name(DORMANT_NOTICE_DISK_IN_MEMORY), "disk_in_memory");
    HOLDS(strstr(dormant.notice_text(DORMANT_NOTICE_DISK_IN_MEMORY), "tmpfs"));
    HOLDS(!dormant.notice_name(3) && !dormant.notice_text(3));
    OK(dormant.resume(NULL, 0, NULL, NULL));
    IS(paused().notices, 0);
}

/* A registration that is refused is said once, and asked for again after a trim. */
static void refused(void) {
    block_as(as(DORMANT_HOST_MODE_RETAIN, 0), GRANULE);
    DormantPrepared prepared = {.size = sizeof prepared};
    OK(dormant.prepare(NULL, 0, NULL, &prepared));
    IS(prepared.bytes, GRANULE);
    IS(prepared.registered, 0);
    DormantReport report = paused();
    IS(report.notices & DORMANT_NOTICE_REGISTRATION_REFUSED, DORMANT_NOTICE_REGISTRATION_REFUSED);
    IS(report.staging_registered, 0);
    OK(dormant.resume(NULL, 0, NULL, NULL));
    IS(paused().notices & DORMANT_NOTICE_REGISTRATION_REFUSED, 0);
}

static void configured(void) {
    DormantConfig config = {.size = sizeof config}, later = {.size = sizeof later};
    OK(dormant.configuration(&config));
    IS(config.host_mode, DORMANT_HOST_MODE_AUTO);
    IS(config.checksum, DORMANT_CHECKSUM_OFF);
    IS(config.host_margin_bytes, 512 << 20);
    IS(config.retain_limit_bytes, 0);
    config.host_mode = DORMANT_HOST_MODE_RETAIN;
    config.checksum = DORMANT_CHECKSUM_FULL;
    config.host_margin_bytes = 1;
    config.retain_limit_bytes = 2 * GRANULE;
    config.disk_keep_bytes = 3;
    OK(dormant.configure(&config));
    config.host_mode = 99;
    IS(dormant.configure(&config), DORMANT_STATUS_INVALID_ARGUMENT);
    config.host_mode = DORMANT_HOST_MODE_OWN; /* As before. */
    config.checksum = -1;
    IS(dormant.configure(&config), DORMANT_STATUS_INVALID_ARGUMENT);
    config.checksum = DORMANT_CHECKSUM_OWN;
    OK(dormant.configure(&config));
    memset(&config.host_mode, 0xEE, sizeof config - offsetof(DormantConfig, host_mode));
    config.size = offsetof(DormantConfig, host_mode); /* Of an older header. */
    config.workers = 3;
    OK(dormant.configure(&config));
    OK(dormant.configuration(&later));
    IS(later.workers, 3);
    IS(later.host_mode, DORMANT_HOST_MODE_RETAIN);
    IS(later.checksum, DORMANT_CHECKSUM_FULL);
    IS(later.host_margin_bytes, 1);
    IS(later.retain_limit_bytes, 2 * GRANULE);
    IS(later.disk_keep_bytes, 3);
    unsigned char *block = block_as(as(DORMANT_HOST_MODE_OWN, DORMANT_CHECKSUM_OWN), GRANULE);
    block_as(as(DORMANT_HOST_MODE_OWN, DORMANT_CHECKSUM_OWN), 2 * GRANULE);
    DormantReport report = paused();
    SAME(report.host_mode, "mixed");
    SAME(report.host_mode_reason, "retain_limit");
    HOLDS(stats().host_retained_bytes <= 2 * GRANULE);
    changed(block);
}

int main(int argc, char **argv) {
    find_dormant();
    RUN(retained);
    RUN(regions);
    RUN(prepared);
    RUN(prepared_otherwise);
    RUN(disk_kept);
    RUN(disk_given_back);
    RUN(planned);
    RUN(checked);
    RUN(noticed);
    RUN(refused);
    RUN(configured);
    return NO_SUCH_CASE;
}
