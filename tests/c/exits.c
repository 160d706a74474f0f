/* Ends of a process that has blocks, in use and asleep. */
#include "gpu.h"
#include "saver.h"

static void *active, *asleep, *late, *foreign;
static bool ends_by_destructor;

static void set_up(void) {
    foreign = allocate(GRANULE);
    enter("w", true);
    active = allocate(GRANULE);
    fill(active, 1, GRANULE);
    tms.set_tag("asleep");
    asleep = allocate(GRANULE);
    late = allocate(GRANULE);
    OK(tms.pause("asleep"));
}

/* What caches and pools of a program do when it ends. */
static void free_all(void) {
    OK(GPU(Free)(active));
    OK(GPU(Free)(asleep));
    OK(GPU(Free)(NULL));
}

static void free_foreign(void) {
    OK(GPU(Free)(foreign));
}

/* In use still: a process that is pausable as a whole. */
static void allocate_late(void) {
    void *block;
    tms.set_region(true);
    OK(GPU(Malloc)(&block, GRANULE));
    OK(GPU(Free)(block));
}

/* The library answers, whatever is gone already. */
static void ask_all(void) {
    DormantBlock block = {.size = sizeof block};
    DormantRegion region = {.size = sizeof region};
    DormantConfig config = {.size = sizeof config};
    DormantError error = {.size = sizeof error};
    DormantReport report = {.size = sizeof report};
    uint32_t on;
    uint64_t entered;
    int32_t state;
    OK(dormant.find(late, &block));
    dormant.region_push(&region, &entered);
    OK(dormant.region_current(&region, &on));
    OK(dormant.configuration(&config));
    IS(dormant.region_pop(0), DORMANT_STATUS_NOT_FOUND);
    dormant.last_error(&error);
    OK(dormant.tag_state("asleep", &state));
    stats();
    HOLDS(tms.get_tag() != NULL);
    int status = dormant.pause(NULL, 0, NULL, &report);
    /* Which of the two is a matter of whose handler runs first. */
    HOLDS(status == DORMANT_STATUS_OK || status == DORMANT_STATUS_WRONG_STATE);
    dormant.report_tags(NULL, NULL);
}

static pthread_key_t key;

/* Runs when what the library keeps for the thread is gone already. */
static void at_the_threads_end(void *block) {
    OK(GPU(Free)(block));
    OK(GPU(Free)(asleep));
    void *more;
    OK(GPU(Malloc)(&more, GRANULE));
    OK(GPU(Free)(more));
    HOLDS(tms.get_tag() != NULL);
    OK(tms.pause("w"));
    OK(tms.resume("w"));
    DormantBlock info = {.size = sizeof info};
    IS(dormant.find(block, &info), DORMANT_STATUS_NOT_FOUND);
    DormantError error = {.size = sizeof error};
    dormant.last_error(&error);
}

static void *end_soon(void *with) {
    tms.set_tag("ending");
    tms.set_region(true);
    DormantBlock info = {.size = sizeof info};
    OK(dormant.find(active, &info));
    IS(dormant.find(&info, &info), DORMANT_STATUS_NOT_FOUND);
    OK(pthread_setspecific(key, allocate(GRANULE)));
    return with;
}

static void of_a_thread(void) {
    set_up();
    size_t start = free_bytes();
    OK(pthread_key_create(&key, at_the_threads_end));
    on_a_thread(end_soon, NULL);
    IS(free_bytes(), start);
    EXPECT(active, 1, GRANULE);
}

static void from_main(void) {
    set_up();
}

static void handlers(void) {
    atexit(free_all); /* Before the engine has one of its own: it runs after that. */
    atexit(allocate_late);
    set_up();
    atexit(free_foreign);
}

static void handlers_that_are_registered_late(void) {
    set_up();
    atexit(free_all);
    atexit(free_foreign);
    atexit(allocate_late);
}

static void questions(void) {
    atexit(ask_all);
    set_up();
    ask_all();
    atexit(ask_all);
}

__attribute__((destructor)) static void last(void) {
    if (ends_by_destructor) {
        free_all();
        free_foreign();
        allocate_late();
    }
}

static void destructors(void) {
    set_up();
    ends_by_destructor = true;
}

static void *run_on(void *with) {
    enter("thread", true);
    for (;;) {
        void *block;
        int code = GPU(Malloc)(&block, GRANULE);
        if (code == OUT_OF_MEMORY) continue;
        OK(code);
        OK(GPU(Free)(block));
    }
    return with;
}

static void *pause_on(void *with) {
    for (;;) {
        tms.pause("asleep");
        tms.resume("asleep");
    }
    return with;
}

static void threads_that_run_on(void) {
    pthread_t thread;
    atexit(free_foreign);
    set_up();
    for (int i = 0; i < 3; i++) OK(pthread_create(&thread, NULL, i ? run_on : pause_on, NULL));
    usleep(50000);
}

static void *pause_it(void *with) {
    tms.pause("w");
    return with;
}

/* With a slow link: the pause is at its copy. */
static void during_a_pause(void) {
    pthread_t thread;
    set_up();
    OK(pthread_create(&thread, NULL, pause_it, NULL));
    while (state_of("w") != DORMANT_STATE_MOVING) usleep(1000);
    atexit(free_all);
    usleep(20000);
}

static void at_once(void) {
    set_up();
    puts("all is well");
    fflush(stdout);
    _exit(0);
}

static void quickly(void) {
    set_up();
    at_quick_exit(free_all);
    puts("all is well");
    fflush(stdout);
    quick_exit(0);
}

int main(int argc, char **argv) {
    find_tms();
    find_dormant();
    RUN(from_main);
    RUN(handlers);
    RUN(handlers_that_are_registered_late);
    RUN(questions);
    RUN(destructors);
    RUN(of_a_thread);
    RUN(threads_that_run_on);
    RUN(during_a_pause);
    RUN(at_once);
    RUN(quickly);
    return NO_SUCH_CASE;
}
