/* Forks while blocks sleep, and while a pause runs: an asynchronous checkpoint. */
#include <signal.h>
#include <sys/wait.h>

#include "gpu.h"
#include "saver.h"

enum { BYTES = 4 << 20, FORKS = 5 };

static void *active, *asleep;
static unsigned char *ordinary, *copied;

static void set_up(void) {
    enter("w", true);
    active = allocate(BYTES);
    fill(active, 1, BYTES);
    tms.set_tag("asleep");
    asleep = allocate(BYTES);
    fill(asleep, 2, BYTES);
    OK(tms.pause("asleep"));
    ordinary = malloc(BYTES);
    memset(ordinary, 3, BYTES);
    copied = malloc(BYTES);
    memcpy(copied, tms.backup(asleep, BYTES), BYTES);
}

static void in_the_child_at_exit(void) {
    GPU(Free)(active);
    GPU(Free)(asleep);
}

static void is_filled(const unsigned char *bytes, int byte) {
    for (int i = 0; i < BYTES; i++) IS(bytes[i], byte);
}

static void hung(int signal) {
    (void)signal;
    fprintf(stderr, "the child hangs after line %d\n", checked_line);
    _exit(3);
}

/* What is the parent's is refused; what is the child's own is there. */
static void child(void) {
    signal(SIGALRM, hung);
    alarm(20);
    is_filled(ordinary, 3);
    is_filled(copied, 2);
    void *block, *handle;
    IS(GPU(Free)(active), NOT_INITIALIZED); /* The runtime's own words. */
    IS(GPU(Free)(asleep), NOT_INITIALIZED);
    tms.set_region(true);
    IS(GPU(Malloc)(&block, GRANULE), NOT_INITIALIZED);
    HOLDS(tms.torch_malloc(GRANULE, 0, NULL) == NULL);
    HOLDS(tms.backup(asleep, 1) == NULL);
    IS(tms.pause(NULL), DORMANT_STATUS_FORKED);
    IS(tms.resume(NULL), DORMANT_STATUS_FORKED);

    DormantRegion region = {.size = sizeof region};
    DormantBlock info = {.size = sizeof info};
    DormantStats all = {.size = sizeof all};
    uint64_t number;
    uint32_t slot;
    int32_t state;
    IS(dormant.allocate(GRANULE, 0, &region, &block), DORMANT_STATUS_FORKED);
    IS(dormant.free(active), DORMANT_STATUS_FORKED);
    IS(dormant.find(active, &info), DORMANT_STATUS_FORKED);
    IS(dormant.read(active, copied, 1), DORMANT_STATUS_FORKED);
    IS(dormant.write(active, copied, 1), DORMANT_STATUS_FORKED);
    IS(dormant.pause(NULL, 0, NULL, NULL), DORMANT_STATUS_FORKED);
    IS(dormant.resume(NULL, 0, NULL, NULL), DORMANT_STATUS_FORKED);
    IS(dormant.stats(&all), DORMANT_STATUS_FORKED);
    IS(dormant.tag_state("w", &state), DORMANT_STATUS_FORKED);
    IS(dormant.backup(asleep, (DormantBackup **)&handle, (const void **)&block, (size_t *)&number),
       DORMANT_STATUS_FORKED);
    IS(dormant.drop_backup(NULL, 0, NULL), DORMANT_STATUS_FORKED);
    IS(dormant.trim(NULL), DORMANT_STATUS_FORKED);
    IS(dormant.prepare(NULL, 0, NULL, NULL), DORMANT_STATUS_FORKED);
    IS(dormant.plan(NULL, 0, NULL, &(DormantPlan){.size = sizeof(DormantPlan)}),
       DORMANT_STATUS_FORKED);
    IS(dormant.capture_begin(&number), DORMANT_STATUS_FORKED);
    IS(dormant.torch_slot(&region, &slot), DORMANT_STATUS_FORKED);
    IS(dormant.device_memory(0, &number, NULL), DORMANT_STATUS_FORKED);
    HOLDS(dormant.backend() == NULL);
    SAME(last_text(), "this process is a forked child; the memory belongs to its parent");
    atexit(in_the_child_at_exit);
    exit(0);
}

static void fork_one(void) {
    int status;
    pid_t pid = fork();
    HOLDS(pid >= 0);
    if (pid == 0) child();
    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
}

static void expect_all(void) {
    OK(tms.resume(NULL));
    EXPECT(active, 1, BYTES);
    EXPECT(asleep, 2, BYTES);
    is_filled(copied, 2);
    OK(GPU(Free)(active));
    OK(GPU(Free)(asleep));
}

static void while_paused(void) {
    set_up();
    fork_one();
    OK(tms.pause(NULL));
    fork_one();
    expect_all();
}

static void *pause_it(void *with) {
    OK(tms.pause("w"));
    return with;
}

/* With a slow link. */
static void during_a_pause(void) {
    pthread_t thread;
    set_up();
    OK(pthread_create(&thread, NULL, pause_it, NULL));
    while (state_of("w") != DORMANT_STATE_MOVING) usleep(100);
    for (int i = 0; i < FORKS; i++) {
        fork_one();
        usleep(1000);
    }
    OK(pthread_join(thread, NULL));
    IS(state_of("w"), DORMANT_STATE_PAUSED);
    expect_all();
}

/* A child that was forked before anything of the GPU was used is a process like any other. */
static void before_the_first_call(void) {
    int status;
    pid_t pid = fork();
    HOLDS(pid >= 0);
    set_up();
    if (pid == 0) {
        expect_all();
        exit(0);
    }
    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    expect_all();
}

int main(int argc, char **argv) {
    find_tms();
    find_dormant();
    RUN(while_paused);
    RUN(during_a_pause);
    RUN(before_the_first_call);
    return NO_SUCH_CASE;
}
